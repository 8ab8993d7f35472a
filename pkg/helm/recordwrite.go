// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"maps"
	"slices"

	"helm.sh/helm/v4/pkg/release"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// seal prepares a revision for its record: it adds the salt and the owner to the labels
// and notes the digest of the content.
func (s *store) seal(next *releasev1.Release) error {
	if next.Version > record.MaxRevision {
		return fmt.Errorf("release %s has revision %d, the highest possible one: delete its record", s.release, next.Version-1)
	}
	next.Labels = maps.Clone(next.Labels)
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	record.AddSalt(next.Labels)
	s.owner.Label(next.Labels)
	digest, err := record.DigestOf(next.Labels[record.SaltLabel], next)
	if err != nil {
		return err
	}
	s.engine.digests.Note(s.release, next.Version, digest)
	s.digests = append(slices.DeleteFunc(s.digests, func(entry record.Digest) bool { return entry.Revision == next.Version }),
		record.Digest{Revision: next.Version, Digest: digest})
	delete(s.unverified, next.Version)
	s.checked.Delete(next.Version)
	return nil
}

// replace overwrites the record of an unfinished attempt. It fails if the record has changed since
// the store read it, so that only one of several engines succeeds.
func (s *store) replace(key string, rls release.Releaser, replaced *record.Record) error {
	return s.write(key, rls, record.ModifiedAtLabel, func(secret *corev1.Secret) (*metav1.PartialObjectMetadata, error) {
		secret.ResourceVersion = replaced.Secret.ResourceVersion
		written, err := s.secrets.update(secret)
		if apierrors.IsConflict(err) {
			return nil, driver.ErrReleaseExists
		}
		return written, err
	})
}

// create writes the record of a new revision.
func (s *store) create(key string, rls release.Releaser) error {
	return s.write(key, rls, "createdAt", func(secret *corev1.Secret) (*metav1.PartialObjectMetadata, error) {
		created, err := s.secrets.create(secret)
		if apierrors.IsAlreadyExists(err) {
			if err := s.vacate(key); err != nil {
				return nil, err
			}
			created, err = s.secrets.create(secret)
		}
		if apierrors.IsAlreadyExists(err) {
			return nil, driver.ErrReleaseExists
		}
		if mayHaveTakenEffect(err) {
			s.engine.attempts.unanswered(s.release)
		}
		return created, err
	})
}

// vacate makes room for a new record where a Secret exists. If finalizers hold a deleted record, it
// removes them, as each of Helm's updates does. Otherwise, it returns an error. Either another
// engine or the helm command was faster, or the Secret is not a release record, and then no watch
// shows it.
func (s *store) vacate(key string) error {
	secret, err := s.secrets.get(key)
	if err != nil {
		return driver.ErrReleaseExists
	}
	if secret.Labels["owner"] != "helm" {
		return &OwnershipConflictError{
			Object: s.secretReference(key),
			Holder: "another owner, although it has the name of a release record",
			Seen:   ownershipOf(secret),
		}
	}
	if secret.DeletionTimestamp == nil {
		return driver.ErrReleaseExists
	}
	secret.Finalizers = nil
	switch _, err := s.secrets.update(secret); {
	case ssa.IsGone(err, key):
		return nil
	case apierrors.IsConflict(err):
		return driver.ErrReleaseExists
	default:
		return err
	}
}

// update writes an existing record.
func (s *store) update(key string, rls release.Releaser) error {
	return s.write(key, rls, record.ModifiedAtLabel, s.secrets.update)
}

// write encodes a record, sends its Secret, and caches its content. That admission has changed the
// content on its way shows only when the record is read again.
func (s *store) write(
	key string, rls release.Releaser, timeLabel string, send func(*corev1.Secret) (*metav1.PartialObjectMetadata, error),
) error {
	next, ok := rls.(*releasev1.Release)
	if !ok {
		return fmt.Errorf("release %s: unexpected record %T", s.release, rls)
	}
	content, encoded, err := s.encode(next)
	if err != nil {
		return err
	}
	if content.Length > s.limit.Bytes {
		return &ReleaseTooLargeError{Release: s.release.String(), Err: fmt.Errorf("it has more than %d bytes", s.limit.Bytes)}
	}
	written, err := send(record.SecretOf(key, next, encoded, timeLabel))
	if err != nil {
		return err
	}
	if _, unverified := s.unverified[next.Version]; !unverified {
		s.engine.bodies.Put(written, content)
	}
	return nil
}

// encode encodes a release. A chart does not change after its release is recorded, so
// it is encoded once.
func (s *store) encode(rls *releasev1.Release) (*record.Content, []byte, error) {
	codec := s.engine.bodies.Codec
	part := s.parts[rls.Chart]
	if part == nil && rls.Chart != nil {
		var err error
		if part, err = codec.Part(rls.Chart); err != nil {
			return nil, nil, fmt.Errorf("encode the chart of release %s: %w", s.release, err)
		}
		s.parts[rls.Chart] = part
	}
	content, record, err := codec.Encode(rls, part)
	if err != nil {
		return nil, nil, err
	}
	content.Labels = rls.Labels
	return content, record, nil
}

// written returns the revision that this operation has written or tried to write, or 0.
func (s *store) written() int {
	if s.made == nil {
		return 0
	}
	return s.made.Version
}

// drop removes one record.
func (s *store) drop(key string) error {
	err := s.secrets.delete(key)
	if ssa.IsGone(err, key) {
		return nil
	}
	return s.note(key, err)
}

// isTooLarge reports whether the API server refused a Secret because of its size.
func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || slices.ContainsFunc(ssa.Causes(err), func(cause metav1.StatusCause) bool {
		return cause.Type == metav1.CauseTypeTooLong
	})
}
