// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm"
)

// engine is an Engine that keeps releases in memory. It decides as the real
// one does.
type engine struct {
	calls *journal

	mu       sync.Mutex
	releases map[cache.ObjectName]*fakeRelease
	// failures are what the next calls of Execute return.
	failures                 []error
	observeErr, uninstallErr error
	// inTheWay is what InTheWay returns.
	inTheWay string
	// taken are the kinds of objects that a repair finds to be somebody else's.
	taken []string
	// uninstallTimeout is what Uninstall was called with last.
	uninstallTimeout time.Duration
	// repaired is what the last Repair was for.
	repaired []helm.Drift
	// reports says that the last Explain was told that drift is left.
	reports bool
	// begins is the health of a new release, if it is not healthy.
	begins *helm.Health
	// executing is called by Execute before it does anything.
	executing func()
	// wanted is what Execute was called with last.
	wanted      helm.Release
	looks       map[cache.ObjectName]int
	forgotten   []string
	subscribers []func(cache.ObjectName, helm.Change)
}

// fakeRelease is a release and its objects: as applied, and as they are now.
type fakeRelease struct {
	record  *helm.Record
	applied map[string]helm.InventoryEntry
	live    map[string]helm.InventoryEntry
	others  map[string]*others
	health  helm.Health
	writes  int
	// inputs are those of each revision.
	inputs map[int]string
	// past are the records before the newest one.
	past []helm.Record
}

// kinds are those of the objects of a release, in the order of its inventory.
var kinds = []string{"ConfigMap", "Deployment", "Secret", "Service"}

var healthy = helm.Health{Status: status.CurrentStatus, Replicas: 1, ReadyReplicas: 1, Selector: "app=a"}

// Observe implements Engine.
func (e *engine) Observe(_ context.Context, key cache.ObjectName, baseline helm.Baseline) (helm.Snapshot, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.looks == nil {
		e.looks = map[cache.ObjectName]int{}
	}
	e.looks[key]++
	if e.observeErr != nil {
		return helm.Snapshot{}, e.observeErr
	}
	r := e.releases[key]
	if r == nil || r.record == nil {
		return helm.Snapshot{}, nil
	}
	record := *r.record
	snapshot := helm.Snapshot{Record: &record, LastGood: r.lastGood(), BaselineKnown: baseline.Revision == record.Revision}
	for revision := range record.Revision {
		if revision+1 == record.Revision && !record.Own {
			continue
		}
		snapshot.Revisions = append(snapshot.Revisions, helm.RevisionDigest{Revision: revision + 1, Digest: "digest"})
	}
	if !snapshot.BaselineKnown {
		return snapshot, nil
	}
	for _, entry := range baseline.Inventory {
		drifts := r.drifts(entry, baseline)
		if snapshot.Drifts = append(snapshot.Drifts, drifts...); len(drifts) > 0 {
			snapshot.Drifted += fmt.Sprintln(drifts, r.live[entry.Kind], r.othersOf(entry.Kind).edits)
		}
		if _, ok := r.live[entry.Kind]; !ok {
			continue
		}
		health := helm.Health{Status: status.CurrentStatus}
		if entry.Kind == "Deployment" {
			health = r.health
		}
		snapshot.Health = append(snapshot.Health, helm.ObjectHealth{Object: entry.ObjectReference, Health: health})
	}
	return snapshot, nil
}

// Decide implements Engine.
func (e *engine) Decide(wanted helm.Release, observed helm.Snapshot) (helm.Decision, error) {
	inputs, err := wanted.InputDigest()
	if err != nil {
		return helm.Decision{}, err
	}
	return helm.Decide(inputs, observed, began, time.Minute), nil
}

// Execute implements Engine.
func (e *engine) Execute(_ context.Context, wanted helm.Release, decision helm.Decision, baseline helm.Baseline) (*helm.Deployed, error) {
	e.calls.add(fmt.Sprintf("%s %s %s", decision.Action, wanted.Name, decision.Cause))
	if e.executing != nil {
		e.executing()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted = wanted
	r := e.releases[wanted.Key()]
	if r == nil {
		r = &fakeRelease{live: map[string]helm.InventoryEntry{}, health: healthy}
		if e.begins != nil {
			r.health = *e.begins
		}
		e.releases[wanted.Key()] = r
	}
	switch decision.Action {
	case helm.ActionWait:
		return nil, &helm.BusyError{Release: wanted.Key().String(), Status: "being changed", RetryAfter: decision.RetryAfter}
	case helm.ActionInstall, helm.ActionUpgrade:
		inputs, err := wanted.InputDigest()
		if err != nil {
			return nil, err
		}
		err = e.nextFailure()
		if err == nil || leavesRecord(err) {
			r.attempt(wanted.Chart, inputs, decision.Replace != 0, err == nil)
		}
		if err != nil {
			return nil, err
		}
		r.apply(wanted.Key(), kinds)
	case helm.ActionRollback:
		inputs, err := wanted.InputDigest()
		if err != nil {
			return nil, err
		}
		if err := e.nextFailure(); err != nil {
			return nil, err
		}
		r.rollBack(decision.To, inputs)
		r.apply(wanted.Key(), kinds)
	case helm.ActionReapply:
		if err := e.nextFailure(); err != nil {
			return nil, err
		}
		r.apply(wanted.Key(), kinds)
	case helm.ActionRepair:
		if err := e.nextFailure(); err != nil {
			return nil, err
		}
		e.repaired = decision.Drifts
		mended := slices.DeleteFunc(slices.Clone(decision.Drifts), func(drift helm.Drift) bool { return slices.Contains(e.taken, drift.Object.Kind) })
		r.repair(wanted.Key(), mended, baseline)
		if len(mended) < len(decision.Drifts) {
			return r.deployed(wanted.Chart), &helm.OwnershipConflictError{
				Object: helm.ObjectReference{APIVersion: "v1", Kind: e.taken[0], Namespace: wanted.Namespace, Name: wanted.Name},
			}
		}
	}
	return r.deployed(wanted.Chart), nil
}

func (e *engine) nextFailure() error {
	if len(e.failures) == 0 {
		return nil
	}
	err := e.failures[0]
	e.failures = e.failures[1:]
	return err
}

// leavesRecord tells the failures that come after the record is written.
func leavesRecord(err error) bool {
	var busy *helm.BusyError
	var refused *helm.RefusedError
	return errors.As(err, &refused) || !helm.IsTerminal(err) && !errors.As(err, &busy)
}

// attempt writes the record of an install or upgrade.
func (r *fakeRelease) attempt(chart *helm.Chart, inputs string, replace, succeeds bool) {
	revision := 1
	if r.record != nil {
		revision = r.record.Revision
		if !replace {
			revision++
			r.past = append(r.past, *r.record)
		}
	}
	r.record = &helm.Record{
		Revision: revision, Status: "failed", Own: true, Inputs: inputs, ChartDigest: chart.Digest()[:16], Changed: began,
	}
	if succeeds {
		r.record.Status = "deployed"
	}
	if r.inputs == nil {
		r.inputs = map[int]string{}
	}
	r.inputs[revision] = inputs
}

// rollBack makes a new revision of an older one, and gives up those inputs.
func (r *fakeRelease) rollBack(to int, inputs string) {
	rolledBack := *r.record
	r.past = append(r.past, *r.record)
	for _, record := range r.past {
		if record.Revision == to {
			rolledBack.ChartDigest = record.ChartDigest
		}
	}
	rolledBack.Revision++
	rolledBack.Status, rolledBack.Inputs = "deployed", r.inputs[to]
	rolledBack.RolledBackTo, rolledBack.Abandoned = to, inputs
	r.record = &rolledBack
}

// lastGood is the newest record before the present one that was deployed.
func (r *fakeRelease) lastGood() *helm.Record {
	for _, record := range slices.Backward(r.past) {
		if record.Status == "deployed" {
			return &record
		}
	}
	return nil
}

// apply makes the objects of these kinds what they should be.
func (r *fakeRelease) apply(key cache.ObjectName, kinds []string) {
	if r.applied == nil {
		r.applied = map[string]helm.InventoryEntry{}
	}
	for _, kind := range kinds {
		r.writes++
		entry, ok := r.live[kind]
		if !ok {
			entry.UID = types.UID(fmt.Sprintf("%s-%d", kind, r.writes))
		}
		entry.ObjectReference = helm.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: key.Namespace, Name: key.Name}
		entry.Digest = r.digest(nil)
		r.live[kind], r.applied[kind] = entry, entry
		delete(r.others, kind)
	}
}

func (r *fakeRelease) deployed(chart *helm.Chart) *helm.Deployed {
	d := &helm.Deployed{
		Revision: r.record.Revision, Chart: chart.Name(), ChartVersion: chart.Version(), AppVersion: chart.AppVersion(),
		ManifestHash: "hash-" + r.record.Inputs,
	}
	for _, kind := range kinds {
		d.Inventory = append(d.Inventory, r.applied[kind])
	}
	return d
}

// Explain implements Engine.
func (e *engine) Explain(_ context.Context, key cache.ObjectName, baseline helm.Baseline, drifts []helm.Drift) ([]helm.Explanation, error) {
	e.calls.add("explain " + key.Name)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reports = baseline.LeaveDrift
	found := make([]helm.Explanation, 0, len(drifts))
	for _, drift := range drifts {
		found = append(found, e.releases[key].explain(drift, baseline))
	}
	return found, nil
}

// Uninstall implements Engine.
func (e *engine) Uninstall(_ context.Context, release helm.Release, _ helm.Baseline) error {
	e.calls.add("uninstall " + release.Name)
	e.uninstallTimeout = release.Timeout
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.uninstallErr == nil {
		delete(e.releases, release.Key())
	}
	return e.uninstallErr
}

// MarkFailed implements Engine.
func (e *engine) MarkFailed(_ context.Context, release helm.Release, _ helm.Baseline, revision int, _ string) error {
	key := release.Key()
	return e.mark(key, revision, "failed")
}

// MarkDeployed implements Engine.
func (e *engine) MarkDeployed(_ context.Context, release helm.Release, _ helm.Baseline, revision int, _ string) error {
	key := release.Key()
	return e.mark(key, revision, "deployed")
}

func (e *engine) mark(key cache.ObjectName, revision int, status string) error {
	e.calls.add(fmt.Sprintf("mark %s v%d %s", key.Name, revision, status))
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.nextFailure(); err != nil {
		return err
	}
	record := e.releases[key].record
	record.Status, record.Unhealthy = status, status == "failed"
	return nil
}

// InTheWay implements Engine.
func (e *engine) InTheWay(_ context.Context, object helm.ObjectReference) (string, error) {
	e.calls.add("look " + object.Kind)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inTheWay, e.nextFailure()
}

// Forget implements Engine.
func (e *engine) Forget(key cache.ObjectName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgotten = append(e.forgotten, key.Name)
}

// HasSynced implements Engine.
func (e *engine) HasSynced() bool { return true }

// Subscribe implements Engine.
func (e *engine) Subscribe(subscriber func(cache.ObjectName, helm.Change)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscribers = append(e.subscribers, subscriber)
}

// publish tells the subscribers of a change.
func (e *engine) publish(name string, change helm.Change) {
	for _, subscriber := range e.subscribers {
		subscriber(keyOf(name), change)
	}
}

// meddle lets somebody else change a release.
func (e *engine) meddle(name string, change func(*fakeRelease)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e.releases[keyOf(name)])
}

// passesOver is how often a release was looked at.
func (e *engine) passesOver(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.looks[keyOf(name)]
}

func edits(kind string) func(*fakeRelease) { return changes(kind, "/edited") }

func removes(kind string) func(*fakeRelease) {
	return func(r *fakeRelease) { delete(r.live, kind) }
}

func replaces(kind string) func(*fakeRelease) {
	return func(r *fakeRelease) {
		entry := r.live[kind]
		entry.UID = "another"
		r.live[kind] = entry
	}
}

// rewrites lets somebody else write the newest record, as the helm command
// does.
func rewrites(revision int, status string) func(*fakeRelease) {
	return func(r *fakeRelease) {
		r.record = &helm.Record{Revision: revision, Status: status, Changed: began}
	}
}

func becomes(s status.Status, message string, ready int32) func(*fakeRelease) {
	return func(r *fakeRelease) {
		r.health = helm.Health{Status: s, Message: message, Replicas: 1, ReadyReplicas: ready, Selector: "app=a"}
	}
}
