// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/helm/guard"
	"github.com/example/demoapp-controller/pkg/helm/live"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// Snapshot is the observed state of a release.
type Snapshot struct {
	// Record is the newest revision; nil without revisions.
	Record *record.Record
	// LastGood is the revision to roll back to if Record failed: the newest revision
	// before Record that was deployed, did not fail, was not rolled back from, and has a
	// verified record. It is nil without such a revision.
	LastGood *record.Record
	// Revisions are the digests of the revisions whose records can be verified: the digests of the
	// given baseline, and the digests that this engine has recorded. Store them in the next
	// baseline.
	Revisions []record.Digest
	// Unverified means that Revisions has no digest for Record. The revision is then made again
	// from the chart, under the same number.
	Unverified bool
	// Remembered says that the given baseline belongs to this release, to any of its
	// revisions.
	Remembered bool
	// BaselineKnown says that the given baseline belongs to the newest revision, so that
	// Drifts and Health are known.
	BaselineKnown bool
	// Completed are entries that replace entries of the baseline's inventory. Some have a digest that
	// an earlier version of the operator recorded without a time, and their objects have not drifted.
	// They have the digest of the live object: until then, a change under the engine's field manager is
	// not drift. Further entries are objects that have ended since.
	Completed []InventoryEntry
	// StillDeployed is the revision of the given baseline if the revision is an older one and all
	// later attempts of the engine failed or were interrupted. Otherwise, it is nil. Drifts and
	// Health then describe its objects, and [ActionRepair] repairs them. If the baseline comes from
	// the error of Execute, objects that the failed attempt applied count with the state after that
	// attempt.
	StillDeployed *record.Record
	Drifts        []Drift
	// Drifted identifies the state of the drifted objects. It changes when another client changes
	// one of these objects again. It is empty without drift.
	Drifted string
	// Writers identify the clients that changed drifted objects, see [ssa.Trace.Writer]. An object
	// that is missing or was replaced has none.
	Writers map[Identity]uint64
	Health  []ObjectHealth
	// Unobserved are the kinds whose objects cannot be watched now, with the causes. Drifts has
	// none of these objects, and in Health they are unknown.
	Unobserved []UnobservedKind
}

// UnobservedKind is a kind whose objects cannot be watched now.
type UnobservedKind struct {
	Kind schema.GroupKind
	Err  error
}

// Verifies reports whether there is a digest to verify the record of a revision.
func (s Snapshot) Verifies(revision int) bool { return record.DigestFor(s.Revisions, revision) != "" }

// Observe returns the observed state of a release. It sends no request, except to watch further
// kinds. It waits until these watches are filled, or cannot be filled. A kind that cannot be watched
// concerns its own objects only, see [Snapshot]. The error wraps [ErrNotSynced] when ctx ends first.
func (e *Engine) Observe(ctx context.Context, release cache.ObjectName, baseline Baseline) (Snapshot, error) {
	snapshot := Snapshot{Remembered: baseline.Revision != 0, Writers: map[Identity]uint64{}}
	history := e.records.History(release)
	if len(history) > 0 {
		snapshot.Revisions = e.digests.Of(release, baseline.Revisions, history)
		snapshot.Record, snapshot.LastGood = history[len(history)-1], record.LastGood(history, snapshot.Revisions)
		snapshot.Unverified = !snapshot.Verifies(snapshot.Record.Revision)
	}
	deployed := record.Deployed(history, baseline.Revision, snapshot.Revisions)
	if deployed == nil {
		return snapshot, nil
	}
	within := guard.Bounds{Namespace: release.Namespace, Scope: baseline.Scope, Namespaces: e.namespaces}
	inventory := slices.DeleteFunc(slices.Clone(baseline.Inventory), func(entry InventoryEntry) bool { return !within.Allow(entry.Namespace) })
	mappings, unobserved, err := e.watchKinds(ctx, release, inventory)
	if err != nil {
		return snapshot, fmt.Errorf("observe release %s: %w", release, err)
	}
	snapshot.Unobserved = kindsOf(unobserved)
	if snapshot.BaselineKnown = deployed == snapshot.Record; !snapshot.BaselineKnown {
		snapshot.StillDeployed = deployed
	}
	e.creations.forget(release)
	e.watcher.Foreign.Set(release, baseline.RemoveForeign, baseline.Ignore)
	drifted, states := []types.UID(nil), sha256.New()
	for i, entry := range inventory {
		if cause := unobserved[entry.GroupVersionKind()]; cause != nil {
			snapshot.Health = append(snapshot.Health, unknown(entry))
			continue
		}
		got, doubted := (*live.Object)(nil), false
		mapping, served := mappings[entry.GroupVersionKind()]
		if served {
			var watched bool
			if got, doubted, watched = e.look(mapping, entry); !watched {
				continue
			}
		}
		entry.Ended = e.endOf(entry, got)
		if got == nil && entry.Ended != "" {
			snapshot.addEnded(entry, inventory[i])
			continue
		}
		found := e.driftsOf(release, entry, got, served && mapping.GroupVersionKind == entry.GroupVersionKind(), doubted)
		snapshot.Drifts = append(snapshot.Drifts, found...)
		if len(found) == 0 {
			entry.Digest = got.Trace.Fingerprint
		}
		snapshot.complete(entry, inventory[i])
		if len(found) > 0 {
			drifted = append(drifted, snapshot.noteDrift(states, i, entry, got, found)...)
		}
		if got != nil {
			snapshot.Health = append(snapshot.Health, ObjectHealth{Object: entry.ObjectReference, Health: got.Health})
		}
	}
	if len(snapshot.Drifts) > 0 {
		snapshot.Drifted = hex.EncodeToString(states.Sum(nil)[:16])
	}
	e.watcher.Drifted.Note(release, drifted)
	return snapshot, nil
}

// noteDrift adds the state of the drifted object i to states, and notes who changed it. It returns the
// UID of the object, or none if the object is gone.
func (s *Snapshot) noteDrift(states io.Writer, i int, entry InventoryEntry, got *live.Object, found []Drift) []types.UID {
	for _, drift := range found {
		fmt.Fprintln(states, i, drift.Kind)
	}
	if got == nil {
		return nil
	}
	fmt.Fprintln(states, got.UID, got.Trace.Fingerprint, got.Edition())
	if got.UID == entry.UID {
		s.Writers[entry.Identity()] = got.Trace.Writer
	}
	return []types.UID{got.UID}
}

// addEnded adds an object that has ended and is gone.
func (s *Snapshot) addEnded(entry, was InventoryEntry) {
	s.complete(entry, was)
	s.Health = append(s.Health, ObjectHealth{Object: entry.ObjectReference, Health: health.OfEnded(entry.Ended)})
}

// complete adds an entry to Completed if it differs from the entry of the baseline.
func (s *Snapshot) complete(entry, was InventoryEntry) {
	if entry != was {
		s.Completed = append(s.Completed, entry)
	}
}

// endOf returns the result of an object that has ended: of the observed object, or of an object that
// is gone, as its last version or the baseline shows it.
func (e *Engine) endOf(entry InventoryEntry, got *live.Object) health.End {
	switch {
	case got != nil && got.UID == entry.UID:
		return got.Health.Ended
	case got == nil && entry.Ended == "":
		return e.watcher.Ends.Of(entry.Namespace, entry.UID)
	default:
		return entry.Ended
	}
}

// look returns the watched object of an entry; nil if it does not exist. watched is false if its
// namespace is not watched.
func (e *Engine) look(mapping *meta.RESTMapping, entry InventoryEntry) (got *live.Object, doubted, watched bool) {
	view := e.watcher.View(mapping, entry.Namespace)
	if view == nil {
		return nil, false, false
	}
	if got, _ = view.Get(entry.Namespace, entry.Name); got != nil {
		doubted = view.IsDoubted(got)
	}
	return got, doubted, true
}

// unknown returns the health of an object that cannot be observed.
func unknown(entry InventoryEntry) ObjectHealth {
	return ObjectHealth{Object: entry.ObjectReference, Health: Health{Status: status.UnknownStatus, Message: "cannot be watched"}}
}

// driftsOf returns how an object differs from its baseline: in fields that other clients
// added, and in fields that the engine applied.
func (e *Engine) driftsOf(release cache.ObjectName, entry InventoryEntry, got *live.Object, served, doubted bool) []Drift {
	var found []Drift
	if got != nil && e.watcher.Foreign.Has(release, got) {
		found = append(found, Drift{Object: entry.ObjectReference, Kind: DriftForeign})
	}
	if kind := compare(entry, got, doubted); kind != "" {
		found = append(found, Drift{Object: entry.ObjectReference, Kind: kind, Unserved: !served})
	}
	return found
}

// mappings returns the mappings of the kinds in the inventory, and the kinds of which discovery does
// not say whether they are served. A kind that is no longer served has neither, and no objects.
func (e *Engine) mappings(inventory []InventoryEntry) (mappings map[schema.GroupVersionKind]*meta.RESTMapping, silent map[schema.GroupVersionKind]error) {
	mappings, silent = map[schema.GroupVersionKind]*meta.RESTMapping{}, map[schema.GroupVersionKind]error{}
	for _, entry := range inventory {
		kind := entry.GroupVersionKind()
		if mappings[kind] != nil || silent[kind] != nil {
			continue
		}
		mapping, err := e.mapper.MappingInAnyVersion(kind)
		switch {
		case err == nil:
			mappings[kind] = mapping
		case !meta.IsNoMatchError(err):
			silent[kind] = err // For example, an aggregated API does not answer.
		}
	}
	return mappings, silent
}

// watchKinds watches the kinds in the inventory. It returns the mappings of the kinds, and why kinds
// cannot be observed. A kind that is no longer served has neither, and no objects.
func (e *Engine) watchKinds(ctx context.Context, release cache.ObjectName, inventory []InventoryEntry) (
	mappings map[schema.GroupVersionKind]*meta.RESTMapping, unobserved map[schema.GroupVersionKind]error, err error,
) {
	mappings, unobserved = e.mappings(inventory)
	if err := e.watcher.Need(ctx, release, slices.Collect(maps.Values(mappings))); err != nil {
		return nil, nil, err
	}
	for kind, mapping := range mappings {
		if err := e.watcher.Unobserved(mapping); err != nil {
			unobserved[kind] = err
		}
	}
	return mappings, unobserved, nil
}

// kindsOf returns the unobserved kinds, sorted by name.
func kindsOf(unobserved map[schema.GroupVersionKind]error) []UnobservedKind {
	var kinds []UnobservedKind
	for kind, err := range unobserved {
		kinds = append(kinds, UnobservedKind{Kind: kind.GroupKind(), Err: err})
	}
	slices.SortFunc(kinds, func(a, b UnobservedKind) int { return cmp.Compare(a.Kind.String(), b.Kind.String()) })
	return kinds
}
