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

// engine is an Engine that keeps releases in memory. It uses the real decision function.
type engine struct {
	calls *journal

	mu       sync.Mutex
	releases map[cache.ObjectName]*fakeRelease
	// failures are the errors of the next calls of Execute.
	failures                 []error
	observeErr, uninstallErr error
	// conflictState is the result of InTheWay.
	conflictState string
	// taken are the kinds whose objects a repair finds to have another owner.
	taken []string
	// uninstallTimeout is the timeout of the last Uninstall.
	uninstallTimeout time.Duration
	// repaired is the drift of the last repair.
	repaired []helm.Drift
	// leaveDrift is Baseline.LeaveDrift of the last Explain.
	leaveDrift bool
	// initialHealth is the health of a new release; nil for healthy.
	initialHealth *helm.Health
	// executing is called at the beginning of Execute.
	executing func()
	// desired is the release of the last Execute.
	desired      helm.Release
	observations map[cache.ObjectName]int
	forgotten    []string
	subscribers  []func(cache.ObjectName, helm.Change)
}

// fakeRelease is a release with its objects, as applied and as they are now.
type fakeRelease struct {
	record  *helm.Record
	applied map[string]helm.InventoryEntry
	live    map[string]helm.InventoryEntry
	foreign map[string]*foreignChanges
	health  helm.Health
	writes  int
	// inputs are the input digests of the revisions.
	inputs map[int]string
	// past are the records of earlier revisions.
	past []helm.Record
}

// kinds are the kinds of the objects of a release, in the order of its inventory.
var kinds = []string{"ConfigMap", "Deployment", "Secret", "Service"}

var healthy = helm.Health{Status: status.CurrentStatus, Replicas: 1, ReadyReplicas: 1, Selector: "app=a"}

// Observe implements Engine.
func (e *engine) Observe(_ context.Context, key cache.ObjectName, baseline helm.Baseline) (helm.Snapshot, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.observations == nil {
		e.observations = map[cache.ObjectName]int{}
	}
	e.observations[key]++
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
			snapshot.Drifted += fmt.Sprintln(drifts, r.live[entry.Kind], r.foreignOf(entry.Kind).edits)
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
func (e *engine) Decide(desired helm.Release, observed helm.Snapshot) (helm.Decision, error) {
	inputs, err := desired.InputDigest()
	if err != nil {
		return helm.Decision{}, err
	}
	return helm.Decide(inputs, observed, began, time.Minute), nil
}

// Execute implements Engine.
func (e *engine) Execute(_ context.Context, desired helm.Release, decision helm.Decision, baseline helm.Baseline) (*helm.Deployed, error) {
	e.calls.add(fmt.Sprintf("%s %s %s", decision.Action, desired.Name, decision.Cause))
	if e.executing != nil {
		e.executing()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.desired = desired
	r := e.releases[desired.Key()]
	if r == nil {
		r = &fakeRelease{live: map[string]helm.InventoryEntry{}, health: healthy}
		if e.initialHealth != nil {
			r.health = *e.initialHealth
		}
		e.releases[desired.Key()] = r
	}
	switch decision.Action {
	case helm.ActionWait:
		return nil, &helm.BusyError{Release: desired.Key().String(), Status: "being changed", RetryAfter: decision.RetryAfter}
	case helm.ActionInstall, helm.ActionUpgrade:
		inputs, err := desired.InputDigest()
		if err != nil {
			return nil, err
		}
		err = e.nextFailure()
		if err == nil || leavesRecord(err) {
			r.attempt(desired.Chart, inputs, decision.Replace != 0, err == nil)
		}
		if err != nil {
			return nil, err
		}
		r.apply(desired.Key(), kinds)
	case helm.ActionRollback:
		inputs, err := desired.InputDigest()
		if err != nil {
			return nil, err
		}
		if err := e.nextFailure(); err != nil {
			return nil, err
		}
		r.rollBack(decision.To, inputs)
		r.apply(desired.Key(), kinds)
	case helm.ActionReapply:
		if err := e.nextFailure(); err != nil {
			return nil, err
		}
		r.apply(desired.Key(), kinds)
	case helm.ActionRepair:
		if err := e.nextFailure(); err != nil {
			return nil, err
		}
		e.repaired = decision.Drifts
		repairable := slices.DeleteFunc(slices.Clone(decision.Drifts), func(drift helm.Drift) bool { return slices.Contains(e.taken, drift.Object.Kind) })
		r.repair(desired.Key(), repairable, baseline)
		if len(repairable) < len(decision.Drifts) {
			return r.deployed(desired.Chart), &helm.OwnershipConflictError{
				Object: helm.ObjectReference{APIVersion: "v1", Kind: e.taken[0], Namespace: desired.Namespace, Name: desired.Name},
			}
		}
	}
	return r.deployed(desired.Chart), nil
}

func (e *engine) nextFailure() error {
	if len(e.failures) == 0 {
		return nil
	}
	err := e.failures[0]
	e.failures = e.failures[1:]
	return err
}

// leavesRecord reports whether a failure happens after the record is written.
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

// rollBack makes a new revision from an earlier one, and abandons the inputs.
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

// lastGood returns the newest earlier record with the status deployed.
func (r *fakeRelease) lastGood() *helm.Record {
	for _, record := range slices.Backward(r.past) {
		if record.Status == "deployed" {
			return &record
		}
	}
	return nil
}

// apply restores the objects of these kinds to their desired state.
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
		delete(r.foreign, kind)
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
	e.leaveDrift = baseline.LeaveDrift
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
	return e.conflictState, e.nextFailure()
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

// publish sends a change to the subscribers.
func (e *engine) publish(name string, change helm.Change) {
	for _, subscriber := range e.subscribers {
		subscriber(keyOf(name), change)
	}
}

// mutate changes a release as another client.
func (e *engine) mutate(name string, change func(*fakeRelease)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e.releases[keyOf(name)])
}

// observationsOf returns how often a release was observed.
func (e *engine) observationsOf(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.observations[keyOf(name)]
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

// rewrites replaces the newest record, as the helm command does.
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
