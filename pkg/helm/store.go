// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm/guard"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// store is Helm's storage driver for one operation on one release. Records have the format of
// Helm's own Secrets driver. The index has all existing records, so the store reads the content of
// a record only when an action needs it.
type store struct {
	engine  *Engine
	release cache.ObjectName
	owner   record.Owner
	secrets *recordClient
	logger  *slog.Logger
	// digests belong to the revisions whose content may be used.
	digests []record.Digest
	// limit is the maximum size of a verified record. budget is the remaining size for all
	// unverified records that this operation reads.
	limit, budget record.Size
	// checked are the revisions that this operation has read and verified.
	checked sets.Set[int]
	// unverified are the records that this operation has read and could not verify;
	// nil for a record that could not be decoded. outlines maps the releases that Helm
	// sees in their place to the records.
	unverified map[int]*releasev1.Release
	outlines   map[*releasev1.Release]*releasev1.Release
	// parts are the encoded charts of the releases that this operation has read or
	// written.
	parts map[*chartv2.Chart]*record.Part
	// replaced is the record of an unfinished attempt that the next revision replaces. Helm does
	// not see this record. The write of the next revision overwrites the record, so that at any
	// time a record names the objects that an attempt may have changed.
	replaced *record.Record
	// abandoned is the newest record, if the operation that it is about has not ended. Helm sees it as
	// failed. It is recorded as failed before the next revision.
	abandoned *record.Record
	// target is the revision that a rollback restores; 0 in other operations. It is
	// never removed, because an interrupted rollback needs it again.
	target int
	// previous is the newest revision when Helm has read it, before made; nil for none.
	previous *previousRevision
	// made is the newest revision that this operation has written or tried to write.
	made *releasev1.Release
	// beforeCreate is called with each new revision before its record is written.
	beforeCreate func(next *releasev1.Release) error
	// begun means that Helm has rendered the chart and has tried to write a record.
	begun bool
	// purging makes Delete remove all records of the release in one request.
	purging bool
	// last is the newest revision that an uninstall has decided upon; 0 in other operations. A
	// revision that another client records meanwhile is handled by the next attempt. Otherwise,
	// Helm would use it as the newest revision and leave the objects of this revision behind.
	last int
	// uninstalling replaces Helm's description of a release that is being uninstalled.
	uninstalling string
	// unwritten is the record of the release that is being uninstalled. It is written only if the
	// uninstall fails, because a successful uninstall deletes it soon.
	unwritten *releasev1.Release
	// unfinished means that further objects must be changed. Delete then keeps the records.
	unfinished bool
	// failure is the first error of a read or a write. Helm's actions log some of them
	// and continue.
	failure error
}

// newStore returns the store of an operation on the release. Its requests end at the
// deadline, not with ctx.
func (e *Engine) newStore(ctx context.Context, desired Release, baseline Baseline, within guard.Bounds, deadline time.Time, logger *slog.Logger) (*store, error) {
	name := desired.Key()
	view := e.records.View(name.Namespace)
	if view == nil {
		return nil, fmt.Errorf("release %s: namespace %q is not among the namespaces that the engine watches", name, name.Namespace)
	}
	bytes := e.recordLimit(desired.Chart)
	owner := record.OwnerOf(desired.Owner)
	owner.Generation = desired.OwnerGeneration
	return &store{
		engine:  e,
		release: name,
		owner:   owner,
		secrets: &recordClient{
			core:     e.clientset.CoreV1(),
			release:  name,
			ctx:      guard.With(context.WithoutCancel(ctx), within),
			deadline: deadline,
			view:     view,
			bodies:   e.bodies,
			flights:  &e.flights,
		},
		logger:     logger,
		digests:    e.digests.Of(name, baseline.Revisions, e.records.History(name)),
		limit:      record.Size{Bytes: bytes, Nodes: record.MaxNodes},
		budget:     record.Size{Bytes: bytes, Nodes: record.MaxUnverifiedNodes},
		checked:    sets.New[int](),
		unverified: map[int]*releasev1.Release{},
		outlines:   map[*releasev1.Release]*releasev1.Release{},
		parts:      map[*chartv2.Chart]*record.Part{},
	}, nil
}

// Name implements driver.Driver. It is the name of Helm's own driver for Secrets.
func (s *store) Name() string { return driver.SecretsDriverName }

// Query implements driver.Driver: it returns the release's records by Helm's labels.
// Records of a certain status have their content. Without a status, only the newest
// record has its content; all other records have name, revision and status, because Helm's actions
// use no more of them.
func (s *store) Query(query map[string]string) ([]release.Releaser, error) {
	if query[record.NameLabel] != s.release.Name {
		return nil, fmt.Errorf("query for release %q in an operation on %q: %w", query[record.NameLabel], s.release, driver.ErrReleaseNotFound)
	}
	history := s.history()
	status, byStatus := query[record.StatusLabel]
	var found []release.Releaser
	for i, record := range history {
		if byStatus && record.Status != status {
			continue
		}
		if !byStatus && i < len(history)-1 {
			found = append(found, s.outline(record))
			continue
		}
		body, err := s.Get(record.Secret.Name)
		if err != nil {
			return nil, err
		}
		found = append(found, body)
		if !byStatus {
			s.notePrevious(record, body)
		}
	}
	if len(found) == 0 {
		if !byStatus && s.made == nil {
			s.previous = nil // An interrupted uninstall was completed.
		}
		return nil, driver.ErrReleaseNotFound
	}
	return found, nil
}

// notePrevious keeps the newest revision for a comparison with the next one.
func (s *store) notePrevious(record *record.Record, body release.Releaser) {
	if s.made != nil {
		return
	}
	s.previous = &previousRevision{record: record}
	if read, unverified := s.unverified[record.Revision]; unverified {
		s.previous.release = read
		return
	}
	s.previous.release, _ = body.(*releasev1.Release)
}

// outline returns a release without its content, from the index.
func (s *store) outline(known *record.Record) *releasev1.Release {
	return &releasev1.Release{
		Name: s.release.Name, Namespace: s.release.Namespace, Version: known.Revision,
		Info: &releasev1.Info{Status: common.Status(known.Status)}, Labels: record.OwnLabels(known.Secret.Labels),
	}
}

// Get implements driver.Driver. For an unverified record it returns the outline, so
// that Helm's actions neither apply the content nor run its hooks. It notes other
// errors, because Helm's actions mistake some of them for a missing release.
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
		s.failAbandoned(outline)
		return outline, nil
	}
	if err != nil {
		if !errors.Is(err, driver.ErrReleaseNotFound) && s.failure == nil {
			s.failure = err
		}
		return nil, err
	}
	seen, info := *rls, *rls.Info
	seen.Info = &info
	s.failAbandoned(&seen)
	return &seen, nil
}

// failAbandoned has Helm see the abandoned record as failed.
func (s *store) failAbandoned(rls *releasev1.Release) {
	if s.abandoned != nil && s.abandoned.Revision == rls.Version {
		rls.SetStatus(common.StatusFailed, "Interrupted")
	}
}

// recordAbandoned records that the abandoned operation has failed. A release that was uninstalled stays so.
func (s *store) recordAbandoned() error {
	abandoned := s.abandoned
	if abandoned == nil || common.Status(abandoned.Status) == common.StatusUninstalled {
		return nil
	}
	rls, err := s.body(abandoned)
	if err != nil {
		return err
	}
	return s.Update(abandoned.Secret.Name, rls)
}

// body returns the release of a record as Helm's actions see it.
func (s *store) body(record *record.Record) (*releasev1.Release, error) {
	body, err := s.Get(record.Secret.Name)
	if err != nil {
		return nil, fmt.Errorf("read revision %d: %w", record.Revision, err)
	}
	rls, ok := body.(*releasev1.Release)
	if !ok {
		return nil, fmt.Errorf("release %s: unexpected record %T", s.release, body)
	}
	return rls, nil
}

// recordAt returns the record in the named Secret; nil for an absent Secret.
func (s *store) recordAt(key string) *record.Record {
	for _, found := range s.engine.records.History(s.release) {
		if found.Secret.Name == key {
			return found
		}
	}
	return nil
}

// history returns the release's records, oldest first, without the one to be replaced.
func (s *store) history() []*record.Record {
	history := s.engine.records.History(s.release)
	return slices.DeleteFunc(history, func(record *record.Record) bool {
		return s.replaced != nil && record.Revision == s.replaced.Revision || s.last != 0 && record.Revision > s.last
	})
}

// newest returns the last record of the history; nil for an empty history.
func (s *store) newest() *record.Record {
	history := s.history()
	if len(history) == 0 {
		return nil
	}
	return history[len(history)-1]
}

// List implements driver.Driver. No operation on one release calls it.
func (s *store) List(func(release.Releaser) bool) ([]release.Releaser, error) {
	return nil, fmt.Errorf("list the releases of other names in an operation on %s: %w", s.release, errNotSupported)
}

// Create implements driver.Driver: it writes the record of a new revision.
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
	if s.replaced != nil && key == s.replaced.Secret.Name {
		replaced := s.replaced
		s.replaced = nil
		return s.note(key, s.replace(key, rls, replaced))
	}
	return s.note(key, s.create(key, rls))
}

// Update implements driver.Driver: it writes an existing record. During an uninstall without hooks,
// it only keeps the record, see unwritten.
func (s *store) Update(key string, rls release.Releaser) error {
	if next, ok := rls.(*releasev1.Release); ok {
		if s.keepsStatus(next) {
			return nil
		}
		markFailed(next)
		if s.uninstalling != "" && next.Info.Status == common.StatusUninstalling {
			next.Info.Description = s.uninstalling
		}
		runsHooks := slices.ContainsFunc(next.Hooks, runsInUninstall)
		if read := s.outlines[next]; read != nil {
			// The history still has the previous content of the record.
			read.Info, read.Labels = next.Info, next.Labels
			next, rls = read, read
		}
		if s.purging && !runsHooks {
			unwritten, info := *next, *next.Info
			unwritten.Info = &info // Helm goes on to change it.
			s.unwritten = &unwritten
			return nil
		}
	}
	return s.overwrite(key, rls)
}

// overwrite writes an existing record. During an uninstall, the record may be gone, for instance
// with its namespace.
func (s *store) overwrite(key string, rls release.Releaser) error {
	err := s.update(key, rls)
	if s.purging && ssa.IsGone(err, key) {
		return nil
	}
	return s.note(key, err)
}

// writeUninstalling records that an uninstall has failed, unless another client has recorded a
// revision meanwhile.
func (s *store) writeUninstalling() {
	latest := s.engine.records.Latest(s.release)
	if s.unwritten == nil || latest == nil || latest.Revision != s.unwritten.Version {
		return
	}
	if err := s.overwrite(record.SecretName(s.release.Name, s.unwritten.Version), s.unwritten); err != nil {
		s.logger.Warn("Cannot record that the uninstall failed", slog.Any("err", shortened(err)))
	}
}

// runsInUninstall reports whether an uninstall runs the hook. Helm records each run, and the
// uninstall may take long.
func runsInUninstall(hook *releasev1.Hook) bool {
	return slices.Contains(hook.Events, releasev1.HookPreDelete) || slices.Contains(hook.Events, releasev1.HookPostDelete)
}

// keepsStatus reports whether Helm's change of a revision to superseded is left out. The revision
// that a failed rollback began from keeps its status, because its objects are still to be removed.
// A revision that was marked as failed stays failed, so that it is never used as a good revision.
func (s *store) keepsStatus(next *releasev1.Release) bool {
	return next.Info.Status == common.StatusSuperseded &&
		(s.target != 0 && s.unfinished || record.IsUnhealthy(next.Labels, next.Version))
}

// markFailed adds the mark of a failed attempt to the revision's record.InputsLabel.
func markFailed(rls *releasev1.Release) {
	value := rls.Labels[record.InputsLabel]
	made, _, _ := strings.Cut(value, "-")
	if rls.Info.Status != common.StatusFailed || made != strconv.Itoa(rls.Version) || strings.HasSuffix(value, record.FailedMark) {
		return
	}
	rls.Labels = maps.Clone(rls.Labels)
	rls.Labels[record.InputsLabel] = value + record.FailedMark
}

// Delete implements driver.Driver: it removes a record without reading it. Helm's
// uninstall deletes the records one by one; the first call removes all of them in one
// request. Other actions delete to limit the history. Then the newest revision stays,
// because the next revision counts from it, and so does the target of a rollback.
func (s *store) Delete(key string) (release.Releaser, error) {
	if s.purging && s.unfinished {
		return nil, errors.New("the records are kept for the next attempt")
	}
	if s.purging {
		history := s.engine.records.History(s.release)
		if len(history) == 0 {
			return nil, nil
		}
		if newest := history[len(history)-1].Revision; s.last != 0 && newest > s.last {
			return nil, s.note(key, fmt.Errorf("another client recorded revision %d of release %s during its uninstall", newest, s.release))
		}
		return nil, s.note(key, s.secrets.purge(history))
	}
	newest := s.newest()
	if newest != nil && key == newest.Secret.Name || s.target != 0 && key == record.SecretName(s.release.Name, s.target) {
		return nil, nil
	}
	return nil, s.drop(key)
}

// supersede marks older revisions as superseded that are still marked as deployed, because Helm
// could not write their records at the end of an upgrade.
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
		if err := s.Update(record.Secret.Name, rls); err != nil {
			return err
		}
	}
	return nil
}

// note wraps the API server's refusal of a record, and keeps the first failure.
func (s *store) note(key string, err error) error {
	if err == nil {
		return nil
	}
	switch {
	case isTooLarge(err):
		err = &ReleaseTooLargeError{Release: s.release.String(), Err: err}
	case apierrors.IsInvalid(err):
		err = &RefusedError{Object: s.secretReference(key), Err: err}
	}
	if s.failure == nil {
		s.failure = err
	}
	return err
}

// secretReference names the Secret of a record.
func (s *store) secretReference(key string) ObjectReference {
	return ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: s.release.Namespace, Name: key}
}
