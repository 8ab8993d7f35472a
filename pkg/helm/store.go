// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// store is Helm's storage driver for one operation on one release. The records
// are ordinary ones, as Helm's own Secrets driver writes them; which of them exist
// is known from the index, so that only the content of those that matter is
// read.
type store struct {
	release cache.ObjectName
	owner   Owner
	records *records
	secrets *recordClient
	bodies  *bodyCache
	logger  *slog.Logger
	// digests are those of the revisions whose content may be used, and decodeLimit
	// is how many bytes a record may have.
	digests     []RevisionDigest
	decodeLimit int
	// sealed is told the digest of a revision that is about to be recorded, and
	// tampered of a revision whose record does not have the content of its digest.
	sealed   func(revision int, digest string)
	tampered func(revision int)
	// patience is how much more of records that are not verified may be read.
	patience recordSize
	// unverified are the records of this release that were read and are not verified,
	// nil for those that could not be decoded; outlines are what Helm sees of them.
	unverified map[int]*releasev1.Release
	outlines   map[*releasev1.Release]*releasev1.Release
	// parts are those of the charts of releases that this operation has read or
	// written.
	parts map[*chartv2.Chart]*chartPart
	// replaced is the record of an unfinished attempt whose place the next one
	// takes. Helm does not get to see it, and the write of a record of that
	// revision replaces it: there is no moment at which nothing tells that the
	// objects may be half changed.
	replaced *Record
	// target is the revision that a rollback brings back; 0 in other operations.
	// A rollback that is interrupted needs it again.
	target int
	// made is the newest revision that this operation has written, or was about to.
	made *releasev1.Release
	// beforeCreate is called with a revision before its record is written.
	beforeCreate func(next *releasev1.Release) error
	// unanswered is called when nobody knows whether a record was created.
	unanswered func()
	// begun says that Helm came to write a record, which it does after rendering.
	begun bool
	// purging makes Delete remove all records of the release at once, unless
	// something is left to do, which the records tell of.
	purging    bool
	unfinished bool
	// failure is the first error of a write. Helm's actions log some of them
	// and go on.
	failure error
}

func newStore(release cache.ObjectName, within bounds, deadline time.Time, e *Engine, logger *slog.Logger) (*store, error) {
	view := e.records.view(release.Namespace)
	if view == nil {
		return nil, fmt.Errorf("release %s: namespace %q is not among those that the engine watches", release, release.Namespace)
	}
	return &store{
		release: release,
		records: e.records,
		secrets: &recordClient{
			SecretInterface: e.clientset.CoreV1().Secrets(release.Namespace),
			bounds:          within,
			deadline:        deadline,
			namespace:       release.Namespace,
			view:            view,
			bodies:          e.bodies,
		},
		bodies:     e.bodies,
		logger:     logger,
		unverified: map[int]*releasev1.Release{},
		outlines:   map[*releasev1.Release]*releasev1.Release{},
		parts:      map[*chartv2.Chart]*chartPart{},
	}, nil
}

// Name implements driver.Driver. It is the name of Helm's own driver for Secrets.
func (s *store) Name() string { return driver.SecretsDriverName }

// Query returns the release's records by Helm's labels. Asked for a status, it
// returns them with their content; asked for all, it returns the newest with
// its content and only name, revision and status of the others, which is all
// that Helm's actions look at.
func (s *store) Query(query map[string]string) ([]release.Releaser, error) {
	if query[recordName] != s.release.Name {
		return nil, fmt.Errorf("query for release %q in an operation on %q: %w", query[recordName], s.release, driver.ErrReleaseNotFound)
	}
	history := s.history()
	status, byStatus := query[recordStatus]
	var found []release.Releaser
	for i, record := range history {
		if byStatus && record.Status != status {
			continue
		}
		if !byStatus && i < len(history)-1 {
			found = append(found, s.outline(record))
			continue
		}
		body, err := s.Get(record.secret.Name)
		if err != nil {
			return nil, err
		}
		found = append(found, body)
	}
	if len(found) == 0 {
		return nil, driver.ErrReleaseNotFound
	}
	return found, nil
}

// outline is a release without its content: what the index tells of a record.
func (s *store) outline(record *Record) *releasev1.Release {
	return &releasev1.Release{
		Name: s.release.Name, Namespace: s.release.Namespace, Version: record.Revision,
		Info: &releasev1.Info{Status: common.Status(record.Status)}, Labels: releaseLabels(record.secret.Labels),
	}
}

// Get reads a record for Helm's actions. Of one whose content is not verified they
// see the outline alone, so that they neither apply that content nor run its hooks.
// Helm's actions take some failures to read for a release that does not exist.
func (s *store) Get(key string) (release.Releaser, error) {
	record := s.recordAt(key)
	if record == nil {
		return nil, driver.ErrReleaseNotFound
	}
	rls, err := s.verified(record.Revision)
	if errors.Is(err, errUnverified) && record.Revision != s.target {
		outline := s.outline(record)
		if read := s.unverified[record.Revision]; read != nil {
			info := *read.Info
			outline.Info, outline.Labels = &info, read.Labels
			s.outlines[outline] = read
		}
		return outline, nil
	}
	if err != nil {
		if !errors.Is(err, driver.ErrReleaseNotFound) && s.failure == nil {
			s.failure = err
		}
		return nil, err
	}
	return rls, nil
}

// body is Get for a record of the index.
func (s *store) body(record *Record) (*releasev1.Release, error) {
	body, err := s.Get(record.secret.Name)
	if err != nil {
		return nil, fmt.Errorf("read revision %d: %w", record.Revision, err)
	}
	rls, ok := body.(*releasev1.Release)
	if !ok {
		return nil, fmt.Errorf("release %s: unexpected record %T", s.release, body)
	}
	return rls, nil
}

// recordAt returns the record in the Secret of that name; nil when there is none.
func (s *store) recordAt(key string) *Record {
	for _, record := range s.records.history(s.release) {
		if record.secret.Name == key {
			return record
		}
	}
	return nil
}

// verified reads the record of a revision. It fails with errUnverified when the
// content is not what the engine recorded.
func (s *store) verified(revision int) (*releasev1.Release, error) {
	digest := digestFor(s.digests, revision)
	rls, err := s.read(revision)
	if err != nil {
		return nil, err
	}
	if rls == nil || !matches(digest, rls) {
		if digest != "" {
			s.tampered(revision)
		}
		s.unverified[revision] = rls // It may have been at hand, from when it was verified.
		return nil, fmt.Errorf("revision %d of release %s: %w", revision, s.release, errUnverified)
	}
	return rls, nil
}

// read reads the record of a revision as it is; nil when it cannot be decoded. It asks
// the API server only when the content of the newest known version is not at hand.
// Only verified content is kept beyond the operation.
func (s *store) read(revision int) (*releasev1.Release, error) {
	key := recordSecretName(s.release.Name, revision)
	if rls, ok := s.unverified[revision]; ok {
		return rls, nil
	}
	known, ok := s.secrets.view.get(s.release.Namespace, key)
	if ok {
		if content := s.bodies.get(known); content != nil {
			rls, err := content.release()
			if err != nil {
				return nil, fmt.Errorf("decode %q: %w", key, err)
			}
			rls.Labels = content.labels
			if content.part != nil {
				s.parts[rls.Chart] = content.part
			}
			return rls, nil
		}
	}
	secret, err := s.secrets.Get(context.Background(), key, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, driver.ErrReleaseNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	digest, limit := digestFor(s.digests, revision), recordSize{s.decodeLimit, maxRecordNodes}
	if digest == "" {
		limit = s.patience
	}
	rls, size := s.decode(secret, revision, limit)
	if rls == nil || !matches(digest, rls) {
		if !size.within(s.patience) {
			rls = nil
		}
		if rls != nil {
			s.patience.bytes, s.patience.nodes = s.patience.bytes-size.bytes, s.patience.nodes-size.nodes
		}
		s.unverified[revision] = rls
		return rls, nil
	}
	if content, _, err := s.encode(rls); err == nil {
		s.bodies.put(secret, content)
	}
	return rls, nil
}

// decode reads a record; nil when it is none of this revision. Name, namespace,
// revision and status are those of the Secret, which the index knows. What is wrong is
// not logged in detail: the text would be the record's author's.
func (s *store) decode(secret *corev1.Secret, revision int, limit recordSize) (*releasev1.Release, recordSize) {
	rls, size, err := decodeRecord(secret.Data["release"], limit)
	if err != nil || rls.Name != s.release.Name || rls.Namespace != s.release.Namespace || rls.Version != revision || rls.Info == nil {
		s.logger.Warn("A release record cannot be read, or is not that of its Secret", slog.String("record", secret.Name))
		return nil, size
	}
	rls.Info.Status = common.Status(secret.Labels[recordStatus])
	rls.Labels = releaseLabels(secret.Labels)
	return rls, size
}

// encode is that of the codec. Charts do not change any more when they are recorded.
func (s *store) encode(rls *releasev1.Release) (*recordContent, []byte, error) {
	part := s.parts[rls.Chart]
	if part == nil && rls.Chart != nil {
		var err error
		if part, err = s.bodies.codec.part(rls.Chart); err != nil {
			return nil, nil, fmt.Errorf("encode the chart of release %s: %w", s.release, err)
		}
		s.parts[rls.Chart] = part
	}
	content, record, err := s.bodies.codec.encode(rls, part)
	if err != nil {
		return nil, nil, err
	}
	content.labels = rls.Labels
	return content, record, nil
}

// history is the release's records as the operation is to see them.
func (s *store) history() []*Record {
	history := s.records.history(s.release)
	if s.replaced == nil {
		return history
	}
	return slices.DeleteFunc(history, func(record *Record) bool { return record.Revision == s.replaced.Revision })
}

// newest is the newest of them; nil when there is none.
func (s *store) newest() *Record {
	history := s.history()
	if len(history) == 0 {
		return nil
	}
	return history[len(history)-1]
}

// List is not part of any operation on one release.
func (s *store) List(func(release.Releaser) bool) ([]release.Releaser, error) {
	return nil, errors.New("the releases of other names are out of reach in an operation on " + s.release.String())
}

// Create writes a new record.
func (s *store) Create(key string, rls release.Releaser) error {
	s.begun = true
	if next, ok := rls.(*releasev1.Release); ok {
		if err := s.beforeCreate(next); err != nil {
			return err
		}
		if err := s.seal(next); err != nil {
			return err
		}
		s.made = next
	}
	if s.replaced != nil && key == s.replaced.secret.Name {
		replaced := s.replaced
		s.replaced = nil
		return s.note(s.replace(key, rls, replaced))
	}
	return s.note(s.create(key, rls))
}

// seal notes what a revision consists of, before its record is written, and marks the
// record as the owner's.
func (s *store) seal(next *releasev1.Release) error {
	if next.Version > maxRevision {
		return fmt.Errorf("release %s has revision %d, which is the last that there can be: delete its record", s.release, next.Version-1)
	}
	next.Labels = maps.Clone(next.Labels)
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	// The revisions of a release share a key, so that equal manifests have equal hashes.
	if len(next.Labels[SaltLabel]) != hex.EncodedLen(saltBytes) {
		next.Labels[SaltLabel] = newSalt()
	}
	s.owner.label(next.Labels)
	digest, err := digestOf(next.Labels[SaltLabel], next)
	if err != nil {
		return err
	}
	s.sealed(next.Version, digest)
	s.digests = append(slices.DeleteFunc(s.digests, func(entry RevisionDigest) bool { return entry.Revision == next.Version }),
		RevisionDigest{Revision: next.Version, Digest: digest})
	delete(s.unverified, next.Version)
	return nil
}

// replace writes a new record in the place of one that nobody has written to since
// it was looked at: one engine of several wins.
func (s *store) replace(key string, rls release.Releaser, replaced *Record) error {
	return s.write(key, rls, recordModifiedAt, func(secret *corev1.Secret) (*corev1.Secret, error) {
		secret.ResourceVersion = replaced.secret.ResourceVersion
		written, err := s.secrets.Update(context.Background(), secret, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			return nil, driver.ErrReleaseExists
		}
		return written, err
	})
}

// create and update are those of Helm's driver, but for how they compress.
func (s *store) create(key string, rls release.Releaser) error {
	return s.write(key, rls, "createdAt", func(secret *corev1.Secret) (*corev1.Secret, error) {
		created, err := s.secrets.Create(context.Background(), secret, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil, s.taken(key)
		}
		if mayHaveTakenEffect(err) {
			s.unanswered()
		}
		return created, err
	})
}

// taken is the error of a record whose name a Secret has already: another engine, or
// the helm command, was faster, or the Secret is no record, which no watch tells of.
func (s *store) taken(key string) error {
	secret, err := s.secrets.Get(context.Background(), key, metav1.GetOptions{})
	if err != nil || secret.Labels["owner"] == "helm" {
		return driver.ErrReleaseExists
	}
	return &OwnershipConflictError{
		Object: ObjectReference{APIVersion: "v1", Kind: secretKind.Kind, Namespace: secret.Namespace, Name: key},
		Holder: "another owner, although it has the name of a release record",
		Seen:   ownershipOf(secret),
	}
}

func (s *store) update(key string, rls release.Releaser) error {
	return s.write(key, rls, recordModifiedAt, func(secret *corev1.Secret) (*corev1.Secret, error) {
		return s.secrets.Update(context.Background(), secret, metav1.UpdateOptions{})
	})
}

func (s *store) write(key string, rls release.Releaser, at string, send func(*corev1.Secret) (*corev1.Secret, error)) error {
	next, ok := rls.(*releasev1.Release)
	if !ok {
		return fmt.Errorf("release %s: unexpected record %T", s.release, rls)
	}
	content, record, err := s.encode(next)
	if err != nil {
		return err
	}
	if content.length > s.decodeLimit {
		return &ReleaseTooLargeError{Release: s.release.String(), Err: fmt.Errorf("it has more than %d bytes", s.decodeLimit)}
	}
	written, err := send(secretOf(key, next, record, at))
	if err != nil {
		return err
	}
	_, unverified := s.unverified[next.Version]
	if !unverified && bytes.Equal(written.Data["release"], record) {
		s.bodies.put(written, content)
	}
	return nil
}

// Update writes an existing record. In an uninstall there need not be one any
// more: the namespace may be on its way out, too.
func (s *store) Update(key string, rls release.Releaser) error {
	if next, ok := rls.(*releasev1.Release); ok {
		if s.target != 0 && s.unfinished && next.Info.Status == common.StatusSuperseded {
			// Helm calls superseded what a failed rollback began from. Its objects are
			// still there to be removed, which its status has to tell.
			return nil
		}
		if next.Info.Status == common.StatusSuperseded && isUnhealthy(next.Labels, next.Version) {
			return nil // It stays failed: nobody is to take it for a good one.
		}
		markFailed(next)
		if read := s.outlines[next]; read != nil {
			// The content stays as it is for those who look at the history.
			read.Info, read.Labels = next.Info, next.Labels
			rls = read
		}
	}
	err := s.update(key, rls)
	if s.purging && apierrors.IsNotFound(err) {
		return nil
	}
	return s.note(err)
}

// markFailed puts the mark of a failed attempt into its label.
func markFailed(rls *releasev1.Release) {
	value := rls.Labels[InputsLabel]
	made, _, _ := strings.Cut(value, "-")
	if rls.Info.Status != common.StatusFailed || made != strconv.Itoa(rls.Version) || strings.HasSuffix(value, failedMark) {
		return
	}
	rls.Labels = maps.Clone(rls.Labels)
	rls.Labels[InputsLabel] = value + failedMark
}

// written is the revision that this operation has written, or was about to; 0
// when it came to none.
func (s *store) written() int {
	if s.made == nil {
		return 0
	}
	return s.made.Version
}

// Delete removes a record, without reading it first. Helm's uninstall deletes
// one after another; the first call then removes them all in one request. Other
// actions make room in the history: of that, the newest revision stays, because
// the next one counts from it, and so does the target of a rollback.
func (s *store) Delete(key string) (release.Releaser, error) {
	if s.purging && s.unfinished {
		return nil, errors.New("kept for the next attempt")
	}
	if s.purging {
		history := s.records.history(s.release)
		if len(history) == 0 {
			return nil, nil
		}
		return nil, s.note(s.secrets.purge(context.Background(), s.release, history))
	}
	newest := s.newest()
	if newest != nil && key == newest.secret.Name || s.target != 0 && key == recordSecretName(s.release.Name, s.target) {
		return nil, nil
	}
	return nil, s.drop(key)
}

// drop removes one record.
func (s *store) drop(key string) error {
	err := s.secrets.Delete(context.Background(), key, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return s.note(err)
}

// supersede marks as such what still counts as deployed besides the newest
// revision. Helm leaves it so when it cannot write that at the end of an upgrade.
func (s *store) supersede() error {
	history := s.history()
	if len(history) == 0 || common.Status(history[len(history)-1].Status) != common.StatusDeployed {
		return nil
	}
	for _, record := range history[:len(history)-1] {
		if common.Status(record.Status) != common.StatusDeployed {
			continue
		}
		rls, err := s.body(record)
		if err != nil {
			return err
		}
		rls.Info.Status = common.StatusSuperseded
		if err := s.Update(record.secret.Name, rls); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) note(err error) error {
	if err == nil {
		return nil
	}
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
		err = &ReleaseTooLargeError{Release: s.release.String(), Err: err}
	}
	if s.failure == nil {
		s.failure = err
	}
	return err
}
