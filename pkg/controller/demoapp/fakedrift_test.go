// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm"
)

// foreignChanges are the changes of other clients to one object.
type foreignChanges struct {
	// taken are the chart's fields that other clients own now. differing are those of
	// them with another value.
	taken, differing []string
	// added are the fields that only other clients have.
	added []string
	// edits counts the changes. accepted is the state in which there was nothing to
	// remove.
	edits    int
	accepted string
}

// touch changes an object as another client.
func touch(kind string, change func(*foreignChanges)) func(*fakeRelease) {
	return func(r *fakeRelease) {
		if r.foreign == nil {
			r.foreign = map[string]*foreignChanges{}
		}
		if r.foreign[kind] == nil {
			r.foreign[kind] = &foreignChanges{}
		}
		o := r.foreign[kind]
		change(o)
		o.edits++
		entry := r.live[kind]
		entry.Digest = r.digest(o.taken)
		r.live[kind] = entry
	}
}

// changes gives a field of the chart another value.
func changes(kind, field string) func(*fakeRelease) {
	return touch(kind, func(o *foreignChanges) {
		o.taken = slices.Compact(slices.Sorted(slices.Values(append(o.taken, field))))
		o.differing = append(o.differing, field)
	})
}

// restores sets a field of the chart to its desired value, without a change of its owner.
func restores(kind, field string) func(*fakeRelease) {
	return touch(kind, func(o *foreignChanges) {
		o.differing = slices.DeleteFunc(o.differing, func(differing string) bool { return differing == field })
	})
}

// adds adds a field that the chart does not have.
func adds(kind, field string) func(*fakeRelease) {
	return touch(kind, func(o *foreignChanges) { o.added = append(o.added, field) })
}

// removesAdded removes all fields that the chart does not have.
func removesAdded(kind string) func(*fakeRelease) {
	return touch(kind, func(o *foreignChanges) { o.added = nil })
}

func (r *fakeRelease) foreignOf(kind string) *foreignChanges {
	if o := r.foreign[kind]; o != nil {
		return o
	}
	return &foreignChanges{}
}

// digest is the digest of the fields that the engine owns.
func (r *fakeRelease) digest(taken []string) string {
	return strings.TrimSpace("applied-" + r.record.Inputs + " " + strings.Join(taken, " "))
}

// state identifies the state of an object, and the rules for ignored fields.
func (o *foreignChanges) state(baseline helm.Baseline) string {
	return fmt.Sprint(o.edits, baseline.Ignore)
}

// drifts returns the drift of one object.
func (r *fakeRelease) drifts(entry helm.InventoryEntry, baseline helm.Baseline) []helm.Drift {
	var found []helm.Drift
	live, ok := r.live[entry.Kind]
	o := r.foreignOf(entry.Kind)
	if ok && baseline.RemoveForeign && len(o.taken)+len(o.added) > 0 && o.accepted != o.state(baseline) {
		found = append(found, helm.Drift{Object: entry.ObjectReference, Kind: helm.DriftForeign})
	}
	switch {
	case !ok:
		found = append(found, helm.Drift{Object: entry.ObjectReference, Kind: helm.DriftMissing})
	case live.UID != entry.UID:
		found = append(found, helm.Drift{Object: entry.ObjectReference, Kind: helm.DriftReplaced})
	case live.Digest != entry.Digest:
		found = append(found, helm.Drift{Object: entry.ObjectReference, Kind: helm.DriftChanged})
	}
	return found
}

// explain returns the drifted fields of an object, as the engine does.
func (r *fakeRelease) explain(drift helm.Drift, baseline helm.Baseline) helm.Explanation {
	ignored := helm.IgnoredPaths(baseline.Ignore, drift.Object)
	counted := func(fields []string) []string {
		return slices.DeleteFunc(slices.Clone(fields), func(field string) bool { return slices.Contains(ignored, field) })
	}
	o := r.foreignOf(drift.Object.Kind)
	explanation := helm.Explanation{Drift: drift, Live: r.live[drift.Object.Kind]}
	switch drift.Kind {
	case helm.DriftForeign:
		explanation.Fields = slices.Clone(o.added)
		if explanation.Acceptable = len(o.added)+len(counted(o.taken)) == 0; explanation.Acceptable {
			o.accepted = o.state(baseline)
		}
	case helm.DriftChanged:
		explanation.Fields = counted(o.differing)
		explanation.Acceptable = len(counted(o.taken)) == 0
	case helm.DriftReplaced:
		explanation.Fields = counted(o.differing)
	case helm.DriftMissing:
	}
	return explanation
}

// repair corrects the drift, and keeps the other entries of the inventory.
func (r *fakeRelease) repair(key cache.ObjectName, drifts []helm.Drift, baseline helm.Baseline) {
	for _, entry := range baseline.Inventory {
		r.applied[entry.Kind] = entry
	}
	for _, drift := range drifts {
		kind := drift.Object.Kind
		isApplied := slices.ContainsFunc(drifts, func(d helm.Drift) bool { return d.Object.Kind == kind && d.Kind != helm.DriftForeign })
		if isApplied {
			r.apply(key, []string{kind})
			continue
		}
		removesAdded(kind)(r)
		r.foreign[kind].accepted = r.foreign[kind].state(baseline)
	}
}
