// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// Engine is a release.Engine that keeps releases in memory. It uses the real decision
// function. A test may set its fields between passes, and in Executing.
type Engine struct {
	// Kinds are the kinds of the objects of a release, in the order of its inventory. Only
	// a Deployment has a health.
	Kinds []string
	// Failures are the errors of the next calls of Execute.
	Failures                 []error
	ObserveErr, UninstallErr error
	// LetGoErr is the result of LetGo, and IsOrphaned the result of Orphaned.
	LetGoErr   error
	IsOrphaned bool
	// Left is the result of Uninstall.
	Left []helm.Leftover
	// ConflictState is the result of InTheWay.
	ConflictState string
	// CapabilitiesDigest is the result of Capabilities.
	CapabilitiesDigest string
	// FailingPods is the result of FailingPod.
	FailingPods string
	// Taken are the kinds whose objects a repair finds to have another owner.
	Taken []string
	// Uncorrected says that a repair finds nothing to correct.
	Uncorrected bool
	// Unobserved are the kinds that cannot be watched.
	Unobserved []helm.UnobservedKind
	// InitialHealth is the health of a new release.
	InitialHealth helm.Health
	// Executing is called at the beginning of Execute.
	Executing func()

	// Desired is the release of the last Execute.
	Desired helm.Release
	// Repaired is the drift of the last repair.
	Repaired []helm.Drift
	// LeaveDrift is Baseline.LeaveDrift of the last Explain.
	LeaveDrift bool
	// UninstallTimeout is the timeout of the last Uninstall.
	UninstallTimeout time.Duration
	// Forgotten are the releases passed to Forget.
	Forgotten []cache.ObjectName

	record func(call string)
	began  time.Time

	mu           sync.Mutex
	releases     map[cache.ObjectName]*Release
	observations map[cache.ObjectName]int
	subscribers  []func(cache.ObjectName, helm.Change)
}

// Healthy is the health of a release whose pod is ready.
var Healthy = helm.Health{Status: status.CurrentStatus, Replicas: 1, ReadyReplicas: 1, Selector: "app=a"}

// New returns an engine without releases. All records are of the time began. The engine
// passes each call that an API server would see to record.
func New(began time.Time, record func(call string)) *Engine {
	return &Engine{
		Kinds: []string{"ConfigMap", "Deployment", "Secret", "Service"}, InitialHealth: Healthy,
		record: record, began: began, releases: map[cache.ObjectName]*Release{}, observations: map[cache.ObjectName]int{},
	}
}

// Observe implements release.Engine.
func (e *Engine) Observe(_ context.Context, key cache.ObjectName, baseline helm.Baseline) (helm.Snapshot, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.observations[key]++
	if e.ObserveErr != nil {
		return helm.Snapshot{}, e.ObserveErr
	}
	r := e.releases[key]
	if r == nil || r.Record == nil {
		return helm.Snapshot{}, nil
	}
	newest := *r.Record
	snapshot := helm.Snapshot{
		Record: &newest, LastGood: r.lastGood(), BaselineKnown: baseline.Revision == newest.Revision, Writers: map[helm.Identity]uint64{},
	}
	for revision := range newest.Revision {
		if revision+1 == newest.Revision && !newest.Own {
			continue
		}
		snapshot.Revisions = append(snapshot.Revisions, record.Digest{Revision: revision + 1, Digest: "digest"})
	}
	snapshot.StillDeployed = r.stillDeployed(baseline.Revision)
	if !snapshot.BaselineKnown && snapshot.StillDeployed == nil {
		return snapshot, nil
	}
	snapshot.Unobserved = e.Unobserved
	for _, entry := range baseline.Inventory {
		if slices.ContainsFunc(e.Unobserved, func(kind helm.UnobservedKind) bool { return kind.Kind.Kind == entry.Kind }) {
			unknown := helm.Health{Status: status.UnknownStatus, Message: "cannot be watched"}
			snapshot.Health = append(snapshot.Health, helm.ObjectHealth{Object: entry.ObjectReference, Health: unknown})
			continue
		}
		drifts := r.drifts(entry, baseline)
		if snapshot.Drifts = append(snapshot.Drifts, drifts...); len(drifts) > 0 {
			snapshot.Drifted += fmt.Sprintln(drifts, r.Live[entry.Kind], r.foreignOf(entry.Kind).edits)
			snapshot.Writers[entry.Identity()] = r.Writers[entry.Kind]
		}
		if _, ok := r.Live[entry.Kind]; !ok {
			continue
		}
		if live := r.Live[entry.Kind]; len(drifts) == 0 && live.Digest != entry.Digest {
			snapshot.Completed = append(snapshot.Completed, live)
		}
		health := helm.Health{Status: status.CurrentStatus}
		if entry.Kind == "Deployment" {
			health = r.Health
		}
		snapshot.Health = append(snapshot.Health, helm.ObjectHealth{Object: entry.ObjectReference, Health: health})
	}
	return snapshot, nil
}

// Running implements release.Engine. No other operator makes releases.
func (e *Engine) Running(context.Context, helm.Release) (*helm.Deployed, []helm.ObjectHealth, error) {
	return nil, nil, nil
}

// Decide implements release.Engine.
func (e *Engine) Decide(desired helm.Release, observed helm.Snapshot) (helm.Decision, error) {
	inputs, err := desired.InputDigest()
	if err != nil {
		return helm.Decision{}, err
	}
	return helm.Decide(inputs, observed, e.began, time.Minute), nil
}

// Execute implements release.Engine.
func (e *Engine) Execute(_ context.Context, desired helm.Release, decision helm.Decision, baseline helm.Baseline) (*helm.Deployed, error) {
	e.record(fmt.Sprintf("%s %s %s", decision.Action, desired.Name, decision.Cause))
	if e.Executing != nil {
		e.Executing()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Desired = desired
	r := e.releaseOf(desired.Key())
	switch decision.Action {
	case helm.ActionWait:
		return nil, &helm.BusyError{Release: desired.Key().String(), Status: "being changed", RetryAfter: decision.RetryAfter}
	case helm.ActionInstall, helm.ActionUpgrade:
		inputs, err := desired.InputDigest()
		if err != nil {
			return nil, err
		}
		err = unlessConsented(desired, e.nextFailure())
		if err == nil || leavesRecord(err) {
			r.attempt(desired, inputs, decision.Replace != 0, err == nil)
		}
		if err != nil {
			return nil, err
		}
		r.apply(desired.Key(), e.Kinds)
	case helm.ActionRollback:
		inputs, err := desired.InputDigest()
		if err != nil {
			return nil, err
		}
		err = e.nextFailure()
		if err == nil || leavesRecord(err) && !meta.IsNoMatchError(err) {
			r.rollBack(decision.To, inputs, err == nil)
		}
		if err != nil {
			return nil, err
		}
		r.apply(desired.Key(), e.Kinds)
	case helm.ActionReapply:
		if err := e.nextFailure(); err != nil {
			return nil, err
		}
		r.apply(desired.Key(), e.Kinds)
	case helm.ActionRepair:
		if err := e.nextFailure(); err != nil {
			return nil, err
		}
		e.Repaired = decision.Drifts
		repairable := slices.DeleteFunc(slices.Clone(decision.Drifts), func(drift helm.Drift) bool { return slices.Contains(e.Taken, drift.Object.Kind) })
		r.repair(desired.Key(), repairable, baseline)
		if len(repairable) < len(decision.Drifts) {
			return r.deployed(baseline.Revision, desired.Chart, e.Kinds), &helm.OwnershipConflictError{
				Object: helm.ObjectReference{APIVersion: "v1", Kind: e.Taken[0], Namespace: desired.Namespace, Name: desired.Name},
			}
		}
		deployed := r.deployed(baseline.Revision, desired.Chart, e.Kinds)
		deployed.Uncorrected = e.Uncorrected
		return deployed, nil
	}
	return r.deployed(r.Record.Revision, desired.Chart, e.Kinds), nil
}

// unlessConsented returns an error of an operation, unless it asks for consent and a user consents.
func unlessConsented(desired helm.Release, err error) error {
	var needed *helm.ConsentError
	if errors.As(err, &needed) && desired.Consents != nil && desired.Consents(needed) {
		return nil
	}
	return err
}

func (e *Engine) nextFailure() error {
	if len(e.Failures) == 0 {
		return nil
	}
	err := e.Failures[0]
	e.Failures = e.Failures[1:]
	return err
}

// Explain implements release.Engine.
func (e *Engine) Explain(_ context.Context, release helm.Release, baseline helm.Baseline, drifts []helm.Drift) ([]helm.Explanation, error) {
	e.record("explain " + release.Name)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.LeaveDrift = baseline.LeaveDrift
	found := make([]helm.Explanation, 0, len(drifts))
	for _, drift := range drifts {
		found = append(found, e.releases[release.Key()].explain(drift, baseline))
	}
	return found, nil
}

// Uninstall implements release.Engine.
func (e *Engine) Uninstall(_ context.Context, release helm.Release, _ helm.Baseline) ([]helm.Leftover, error) {
	e.record("uninstall " + release.Name)
	e.UninstallTimeout = release.Timeout
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.UninstallErr == nil {
		delete(e.releases, release.Key())
	}
	return e.Left, e.UninstallErr
}

// LetGo implements release.Engine.
func (e *Engine) LetGo(_ context.Context, release helm.Release, _ helm.Baseline) error {
	e.record("let go " + release.Name)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.LetGoErr
}

// Orphaned implements release.Engine.
func (e *Engine) Orphaned(context.Context, helm.Release, helm.Baseline) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.IsOrphaned, nil
}

// MarkFailed implements release.Engine.
func (e *Engine) MarkFailed(_ context.Context, release helm.Release, _ helm.Baseline, revision int, _ string) error {
	key := release.Key()
	return e.mark(key, revision, "failed")
}

// MarkDeployed implements release.Engine.
func (e *Engine) MarkDeployed(_ context.Context, release helm.Release, _ helm.Baseline, revision int, _ string) error {
	key := release.Key()
	return e.mark(key, revision, "deployed")
}

func (e *Engine) mark(key cache.ObjectName, revision int, status string) error {
	e.record(fmt.Sprintf("mark %s v%d %s", key.Name, revision, status))
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.nextFailure(); err != nil {
		return err
	}
	record := e.releases[key].Record
	record.Status, record.Unhealthy = status, status == "failed"
	return nil
}

// Remaining implements release.Engine.
func (*Engine) Remaining(context.Context, helm.Release, helm.Baseline) ([]helm.Leftover, error) {
	return nil, nil
}

// InTheWay implements release.Engine.
func (e *Engine) InTheWay(_ context.Context, _ helm.Release, object helm.ObjectReference) (string, error) {
	e.record("look " + object.Kind)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ConflictState, e.nextFailure()
}

// Capabilities implements release.Engine.
func (e *Engine) Capabilities(cache.ObjectName) string { return e.CapabilitiesDigest }

// FailingPod implements release.Engine.
func (e *Engine) FailingPod(_ context.Context, workload helm.ObjectHealth) (string, error) {
	e.record("look at pods of " + workload.Object.Name)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.FailingPods, nil
}

// Forget implements release.Engine.
func (e *Engine) Forget(key cache.ObjectName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Forgotten = append(e.Forgotten, key)
}

// HasSynced implements release.Engine.
func (e *Engine) HasSynced() bool { return true }

// Subscribe implements release.Engine.
func (e *Engine) Subscribe(subscriber func(cache.ObjectName, helm.Change)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscribers = append(e.subscribers, subscriber)
}

// Release returns a release, or nil. Use [Engine.Mutate] while controllers run.
func (e *Engine) Release(key cache.ObjectName) *Release {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.releases[key]
}

// Add adds a release without a record, as a first attempt that is interrupted leaves it.
func (e *Engine) Add(key cache.ObjectName) *Release {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.releaseOf(key)
}

// releaseOf returns a release. It adds a release that is missing.
func (e *Engine) releaseOf(key cache.ObjectName) *Release {
	r := e.releases[key]
	if r == nil {
		r = &Release{
			Applied: map[string]helm.InventoryEntry{}, Live: map[string]helm.InventoryEntry{}, Health: e.InitialHealth,
			began: e.began, inputs: map[int]string{}, foreign: map[string]*foreignChanges{},
		}
		e.releases[key] = r
	}
	return r
}

// Mutate changes a release as another client, which may have made it.
func (e *Engine) Mutate(key cache.ObjectName, change func(*Release)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e.releaseOf(key))
}

// Publish sends a change to the subscribers.
func (e *Engine) Publish(key cache.ObjectName, change helm.Change) {
	e.mu.Lock()
	subscribers := e.subscribers
	e.mu.Unlock()
	for _, subscriber := range subscribers {
		subscriber(key, change)
	}
}

// Unsubscribe removes all subscribers, as the end of a process does.
func (e *Engine) Unsubscribe() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscribers = nil
}

// ObservationsOf returns how often a release was observed.
func (e *Engine) ObservationsOf(key cache.ObjectName) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.observations[key]
}
