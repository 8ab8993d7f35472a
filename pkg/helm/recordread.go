// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"log/slog"

	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/example/demoapp-controller/pkg/helm/record"
)

// errUnverified means that the content of a record does not match the digest of its
// revision, or that neither the engine nor the caller has a digest.
var errUnverified = errors.New("its record was not written by this engine, or was changed since")

// verified returns the release of a revision. It fails with errUnverified when the
// record's content does not match the digest that the engine recorded.
func (s *store) verified(revision int) (*releasev1.Release, error) {
	rls, genuine, err := s.read(revision)
	if err != nil {
		return nil, err
	}
	if genuine {
		s.checked.Insert(revision)
		return rls, nil
	}
	if record.DigestFor(s.digests, revision) != "" {
		s.engine.digests.Note(s.release, revision, "")
	}
	s.unverified[revision] = rls // A cached record is unverified, too, if its digest is no longer known.
	return nil, fmt.Errorf("revision %d of release %s: %w", revision, s.release, errUnverified)
}

// isVerified reports whether the record of a revision is verified. It reads each record
// only once per operation.
func (s *store) isVerified(revision int) (bool, error) {
	if s.checked.Has(revision) {
		return true, nil
	}
	_, err := s.verified(revision)
	if errors.Is(err, errUnverified) {
		return false, nil
	}
	return err == nil, err
}

// read returns the release in the record of a revision, and whether the record matches
// its digest. The release is nil when the record cannot be decoded. read sends a request
// only when the newest known version of the record is not cached.
func (s *store) read(revision int) (rls *releasev1.Release, genuine bool, err error) {
	if rls, ok := s.unverified[revision]; ok {
		return rls, false, nil
	}
	key, digest := record.SecretName(s.release.Name, revision), record.DigestFor(s.digests, revision)
	if rls, err = s.cached(key); rls != nil || err != nil {
		return rls, rls != nil && record.Matches(digest, rls), err
	}
	secret, err := s.secrets.get(key)
	if apierrors.IsNotFound(err) {
		return nil, false, driver.ErrReleaseNotFound
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %q: %w", key, err)
	}
	limit := s.limit
	if digest == "" {
		limit = s.budget
	}
	rls, size := s.decode(secret, revision, limit)
	if rls != nil && record.Matches(digest, rls) {
		if content, _, err := s.encode(rls); err == nil {
			s.engine.bodies.Put(secret, content)
		}
		return rls, true, nil
	}
	if !size.Within(s.budget) {
		rls = nil
	}
	if rls != nil {
		s.budget.Bytes, s.budget.Nodes = s.budget.Bytes-size.Bytes, s.budget.Nodes-size.Nodes
	}
	s.unverified[revision] = rls
	return rls, false, nil
}

// cached returns the release of a record from the cache, which holds only verified
// content. It returns nil when the cache lacks the newest known version of the record.
func (s *store) cached(key string) (*releasev1.Release, error) {
	known, ok := s.secrets.view.Get(s.release.Namespace, key)
	if !ok {
		return nil, nil
	}
	content := s.engine.bodies.Get(known)
	if content == nil {
		return nil, nil
	}
	rls, err := content.Release()
	if err != nil {
		return nil, fmt.Errorf("decode %q: %w", key, err)
	}
	rls.Labels = content.Labels
	if content.Part != nil {
		s.parts[rls.Chart] = content.Part
	}
	return rls, nil
}

// decode returns the release in a Secret, or nil when the Secret does not hold the record
// of this revision. The release status comes from the Secret's labels, as in the index.
// The log omits the error, because the author of the record controls its text.
func (s *store) decode(secret *corev1.Secret, revision int, limit record.Size) (*releasev1.Release, record.Size) {
	rls, size, err := record.Decode(secret.Data["release"], limit)
	if err != nil || rls.Name != s.release.Name || rls.Namespace != s.release.Namespace || rls.Version != revision || rls.Info == nil {
		s.logger.Warn("Ignored a release record that cannot be decoded or belongs to another revision", slog.String("record", secret.Name))
		return nil, size
	}
	rls.Info.Status = common.Status(secret.Labels[record.StatusLabel])
	rls.Labels = record.OwnLabels(secret.Labels)
	return rls, size
}
