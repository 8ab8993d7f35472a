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

// others is what others did to one object.
type others struct {
	// taken are the chart's fields that they own now, and differing those of them
	// that have another value.
	taken, differing []string
	// added are the fields that only they have.
	added []string
	// edits counts what they did, and accepted is the state in which there was
	// nothing to remove.
	edits    int
	accepted string
}

// touch lets others change an object.
func touch(kind string, change func(*others)) func(*fakeRelease) {
	return func(r *fakeRelease) {
		if r.others == nil {
			r.others = map[string]*others{}
		}
		if r.others[kind] == nil {
			r.others[kind] = &others{}
		}
		o := r.others[kind]
		change(o)
		o.edits++
		entry := r.live[kind]
		entry.Digest = r.digest(o.taken)
		r.live[kind] = entry
	}
}

// changes gives a field of the chart another value.
func changes(kind, field string) func(*fakeRelease) {
	return touch(kind, func(o *others) {
		o.taken = slices.Compact(slices.Sorted(slices.Values(append(o.taken, field))))
		o.differing = append(o.differing, field)
	})
}

// putsBack gives a field of the chart its value again, which does not make it the
// engine's.
func putsBack(kind, field string) func(*fakeRelease) {
	return touch(kind, func(o *others) {
		o.differing = slices.DeleteFunc(o.differing, func(differing string) bool { return differing == field })
	})
}

// adds adds a field that the chart does not have.
func adds(kind, field string) func(*fakeRelease) {
	return touch(kind, func(o *others) { o.added = append(o.added, field) })
}

// takesAway removes all fields that the chart does not have.
func takesAway(kind string) func(*fakeRelease) {
	return touch(kind, func(o *others) { o.added = nil })
}

func (r *fakeRelease) othersOf(kind string) *others {
	if o := r.others[kind]; o != nil {
		return o
	}
	return &others{}
}

// digest stands for the fields that the engine owns.
func (r *fakeRelease) digest(taken []string) string {
	return strings.TrimSpace("applied-" + r.record.Inputs + " " + strings.Join(taken, " "))
}

// state is one of an object, and of the rules that it is looked at by.
func (o *others) state(baseline helm.Baseline) string { return fmt.Sprint(o.edits, baseline.Ignore) }

// drifts are those of one object.
func (r *fakeRelease) drifts(entry helm.InventoryEntry, baseline helm.Baseline) []helm.Drift {
	var found []helm.Drift
	live, ok := r.live[entry.Kind]
	o := r.othersOf(entry.Kind)
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

// explain tells what is different about an object, as the engine does.
func (r *fakeRelease) explain(drift helm.Drift, baseline helm.Baseline) helm.Explanation {
	ignored := helm.IgnoredPaths(baseline.Ignore, drift.Object)
	counted := func(fields []string) []string {
		return slices.DeleteFunc(slices.Clone(fields), func(field string) bool { return slices.Contains(ignored, field) })
	}
	o := r.othersOf(drift.Object.Kind)
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

// repair mends what has drifted, and keeps what is remembered of all else.
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
		takesAway(kind)(r)
		r.others[kind].accepted = r.others[kind].state(baseline)
	}
}
