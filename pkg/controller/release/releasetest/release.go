// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// Release is a release with its objects, by kind: as applied and as they are now.
type Release struct {
	// Record is the newest record; nil for none. Past are the earlier records.
	Record        *record.Record
	Past          []record.Record
	Applied, Live map[string]helm.InventoryEntry
	Health        helm.Health
	// Writers identify the clients that change objects, by kind.
	Writers map[string]uint64

	began   time.Time
	foreign map[string]*foreignChanges
	writes  int
	// inputs are the input digests of the revisions.
	inputs map[int]string
}

// leavesRecord reports whether a failure happens after the record is written.
func leavesRecord(err error) bool {
	var busy *helm.BusyError
	var refused *helm.RefusedError
	var consent *helm.ConsentError
	if errors.As(err, &consent) {
		return false
	}
	return errors.As(err, &refused) || !helm.IsTerminal(err) && !errors.As(err, &busy)
}

// attempt writes the record of an install or upgrade.
func (r *Release) attempt(desired helm.Release, inputs string, replace, succeeds bool) {
	chart := desired.Chart
	revision := 1
	if r.Record != nil {
		revision = r.Record.Revision
		if !replace {
			revision++
			r.Past = append(r.Past, *r.Record)
		}
	}
	r.Record = &record.Record{
		Revision: revision, Status: "failed", Own: true, Inputs: inputs, ChartDigest: chart.Digest()[:16], Changed: r.began,
		Owner: record.Owner{Generation: desired.OwnerGeneration},
	}
	if desired.Owner != nil {
		r.Record.Owner.UID = desired.Owner.UID
	}
	if succeeds {
		r.Record.Status = "deployed"
	}
	r.inputs[revision] = inputs
}

// rollBack makes a new revision from an earlier one, and abandons the inputs. It replaces a
// rollback that did not succeed.
func (r *Release) rollBack(to int, inputs string, succeeds bool) {
	rolledBack := *r.Record
	if r.Record.RolledBackTo == 0 || !r.Record.Unfinished() {
		r.Past = append(r.Past, *r.Record)
		rolledBack.Revision++
	}
	for _, record := range r.Past {
		if record.Revision == to {
			rolledBack.ChartDigest = record.ChartDigest
		}
	}
	rolledBack.Status, rolledBack.Inputs = "failed", r.inputs[to]
	if succeeds {
		rolledBack.Status = "deployed"
	}
	rolledBack.RolledBackTo, rolledBack.Abandoned = to, inputs
	r.Record = &rolledBack
}

// lastGood returns the newest earlier record with the status deployed.
func (r *Release) lastGood() *record.Record {
	for _, record := range slices.Backward(r.Past) {
		if record.Status == "deployed" {
			return &record
		}
	}
	return nil
}

// apply restores the objects of these kinds to their desired state.
func (r *Release) apply(key cache.ObjectName, kinds []string) {
	for _, kind := range kinds {
		r.writes++
		entry, ok := r.Live[kind]
		if !ok {
			entry.UID = types.UID(fmt.Sprintf("%s-%d", kind, r.writes))
		}
		entry.ObjectReference = helm.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: key.Namespace, Name: key.Name}
		entry.Digest = r.digest(nil)
		r.Live[kind], r.Applied[kind] = entry, entry
		delete(r.foreign, kind)
	}
}

// stillDeployed returns the record of a revision if all later attempts failed.
func (r *Release) stillDeployed(revision int) *record.Record {
	if r.Record.Revision == revision {
		return nil
	}
	for _, record := range slices.Backward(append(slices.Clone(r.Past), *r.Record)) {
		switch {
		case record.Revision == revision && (record.Status == "deployed" || record.Unhealthy):
			return &record
		case !record.Own || record.Status != "failed" || record.Unhealthy:
			return nil
		}
	}
	return nil
}

func (r *Release) deployed(revision int, chart *chart.Chart, kinds []string) *helm.Deployed {
	d := &helm.Deployed{
		Revision: revision, Chart: chart.Name(), ChartVersion: chart.Version(), AppVersion: chart.AppVersion(),
		ManifestHash: "hash-" + r.inputs[revision],
	}
	for _, kind := range kinds {
		d.Inventory = append(d.Inventory, r.Applied[kind])
	}
	return d
}
