// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasetest

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/fields"
)

// foreignChanges are the changes of other clients to one object.
type foreignChanges struct {
	// taken are the chart's fields that other clients own now. differing are the taken fields with
	// another value.
	taken, differing []string
	// added are the fields that only other clients have.
	added []string
	// edits counts the changes. accepted is the state in which there was nothing to
	// remove.
	edits    int
	accepted string
}

func (r *Release) foreignOf(kind string) *foreignChanges {
	if o := r.foreign[kind]; o != nil {
		return o
	}
	return &foreignChanges{}
}

// digest is the digest of the fields that the engine owns.
func (r *Release) digest(taken []string) string {
	return strings.TrimSpace("applied-" + r.Record.Inputs + " " + strings.Join(taken, " "))
}

// state identifies the state of an object, and the rules for ignored fields.
func (o *foreignChanges) state(baseline helm.Baseline) string {
	return fmt.Sprint(o.edits, baseline.Ignore)
}

// drifts returns the drift of one object.
func (r *Release) drifts(entry helm.InventoryEntry, baseline helm.Baseline) []helm.Drift {
	var found []helm.Drift
	live, ok := r.Live[entry.Kind]
	o := r.foreignOf(entry.Kind)
	if ok && baseline.RemoveForeign && len(o.taken)+len(o.added) > 0 && o.accepted != o.state(baseline) {
		found = append(found, helm.Drift{Object: entry.ObjectReference, Kind: helm.DriftForeign})
	}
	switch {
	case !ok:
		found = append(found, helm.Drift{Object: entry.ObjectReference, Kind: helm.DriftMissing})
	case live.UID != entry.UID:
		found = append(found, helm.Drift{Object: entry.ObjectReference, Kind: helm.DriftReplaced})
	case live.Digest != entry.Digest && !strings.HasPrefix(live.Digest, entry.Digest+"@"): // A time may be missing.
		found = append(found, helm.Drift{Object: entry.ObjectReference, Kind: helm.DriftChanged})
	}
	return found
}

// explain returns the drifted fields of an object, as the engine does.
func (r *Release) explain(drift helm.Drift, baseline helm.Baseline) helm.Explanation {
	ignored := fields.IgnoredPaths(baseline.Ignore, drift.Object.Kind, drift.Object.Name)
	counted := func(fields []string) []string {
		return slices.DeleteFunc(slices.Clone(fields), func(field string) bool { return slices.Contains(ignored, field) })
	}
	o := r.foreignOf(drift.Object.Kind)
	explanation := helm.Explanation{Drift: drift, Live: r.Live[drift.Object.Kind]}
	if len(o.taken)+len(o.added) > 0 {
		explanation.Managers = []string{"injector"}
	}
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
func (r *Release) repair(key cache.ObjectName, drifts []helm.Drift, baseline helm.Baseline) {
	for _, entry := range baseline.Inventory {
		r.Applied[entry.Kind] = entry
	}
	for _, drift := range drifts {
		kind := drift.Object.Kind
		isApplied := slices.ContainsFunc(drifts, func(d helm.Drift) bool { return d.Object.Kind == kind && d.Kind != helm.DriftForeign })
		if isApplied {
			r.apply(key, []string{kind})
			continue
		}
		RemoveAddedFields(kind)(r)
		r.foreign[kind].accepted = r.foreign[kind].state(baseline)
	}
}
