// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"

	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/message"
)

// MaxChanges is the largest number of changes that [Changes] names, and MaxChangeBytes the
// largest size in bytes of one of them.
const (
	MaxChanges     = 10
	MaxChangeBytes = 256
)

// Changes are the inputs of a revision that differ from the inputs of the revision before.
type Changes struct {
	// Named has "chart" if the files of the chart differ, "owner" if the owner differs, and the
	// paths of values, such as "values.image.tag". It never has a value. Lists are compared as a
	// whole. A key that the chart does not name may be secret, so Named has the path of its object
	// instead.
	Named []string
	// More is the number of further changes.
	More int
}

// RevisionError is the error of an operation that made, or tried to make, a revision that differs
// from the previous revision. Match causes with errors.As.
type RevisionError struct {
	// Changes are the changes of the failed revision.
	Changes Changes
	// Err is the cause of the failure.
	Err error
}

// Error returns the message of Err.
func (e *RevisionError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RevisionError) Unwrap() error { return e.Err }

// previousRevision is the revision before the revision of an operation.
type previousRevision struct {
	record *record.Record
	// release is nil if the record cannot be decoded.
	release *releasev1.Release
}

// changes returns the changes of the revision that the operation has made or tried to make. The
// changes are empty if the previous revision is unknown. changes sends no request, because Helm has
// already read the previous revision.
func (o *operation) changes(chart *chart.Chart) Changes {
	made, previous := o.store.made, o.store.previous
	if made == nil || previous == nil || previous.release == nil {
		return Changes{}
	}
	var found Changes
	if chartDiffers(previous, made) {
		found.add("chart")
	}
	if previous.record.OwnerUID() != o.ownerID.UID {
		found.add("owner")
	}
	names := map[string]bool{}
	if chart != nil {
		names = chart.ValueNames()
	}
	found.compare(names, nil, previous.release.Config, made.Config)
	return found
}

// chartDiffers reports whether two revisions have different charts. The files of the chart of
// another client's revision are not compared.
func chartDiffers(previous *previousRevision, made *releasev1.Release) bool {
	if before := previous.record.ChartDigest; before != "" {
		_, _, now := record.SplitInputs(made.Labels[record.InputsLabel])
		return before != now
	}
	before, now := previous.release.Chart, made.Chart
	if before == nil || before.Metadata == nil || now == nil || now.Metadata == nil {
		return false
	}
	return before.Metadata.Name != now.Metadata.Name || before.Metadata.Version != now.Metadata.Version
}

// compare adds the paths of the values that differ. names are the keys that the chart names.
func (c *Changes) compare(names map[string]bool, path []string, before, after map[string]any) {
	unnamed := false
	for _, key := range sets.List(sets.KeySet(before).Union(sets.KeySet(after))) {
		old, had := before[key]
		now, has := after[key]
		inner, wasMap := old.(map[string]any)
		innerNow, isMap := now.(map[string]any)
		switch {
		case wasMap && isMap && names[key]:
			c.compare(names, append(slices.Clone(path), key), inner, innerNow)
		case had == has && chart.SameValue(old, now):
		case names[key]:
			c.add(chart.ValuePath(append(slices.Clone(path), key)))
		default:
			unnamed = true
		}
	}
	if unnamed {
		c.add(chart.ValuePath(path))
	}
}

func (c *Changes) add(path string) {
	if len(c.Named) == MaxChanges {
		c.More++
		return
	}
	c.Named = append(c.Named, message.Truncate(path, MaxChangeBytes))
}
