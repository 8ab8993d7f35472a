// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/cluster"
)

// engine is the player that uses the engine as a controller does: observe, decide, act, and keep
// the baseline.
type engine struct {
	*helm.Engine

	// owner is the test at whose end the engine ends, and t is the test that currently uses it.
	owner, t  testing.TB
	namespace string
	journal   journal
	baseline  helm.Baseline
	// last is the last decision.
	last helm.Decision
	// options are the options of the engine's start.
	options []func(*helm.Config)
	stop    func()

	mu sync.Mutex
	// changed is closed and replaced at every change that the engine reports. changes counts the
	// changes of objects.
	changed chan struct{}
	changes int
	// siblings are the players that share the engine, including this one.
	siblings []*engine
}

// newEngine starts an engine that ends with the test.
func newEngine(t testing.TB, namespace string, options ...func(*helm.Config)) *engine {
	t.Helper()
	e := &engine{owner: t, t: t, namespace: namespace, options: options, changed: make(chan struct{})}
	e.siblings = []*engine{e}
	e.start()
	return e
}

// start starts the engine, which knows only the baseline of an earlier one.
func (e *engine) start() {
	e.t.Helper()
	config := helm.Config{
		RESTConfig: shared.AdminConfig(), MaxHistory: maxHistory, Timeout: timeout, Logger: slog.New(slog.DiscardHandler),
		// Otherwise, each engine would observe the releases of all tests.
		Namespaces: []string{e.namespace},
	}
	for _, option := range e.options {
		option(&config)
	}
	config.RESTConfig.Wrap(e.journal.wrap)
	started, err := helm.New(config)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, sibling := range e.siblings {
		sibling.Engine = started
		started.Subscribe(sibling.hear)
	}
	ctx, cancel := context.WithCancel(e.owner.Context())
	var running sync.WaitGroup
	running.Go(func() { started.Run(ctx) })
	e.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	e.owner.Cleanup(e.stop)
	cluster.Eventually(ctx, e.t, "the engine's caches", func(context.Context) (bool, error) { return e.HasSynced(), nil })
}

// everywhere makes an engine watch all namespaces.
func everywhere(config *helm.Config) { config.Namespaces = nil }

// restart ends the engine, and starts another one.
func (e *engine) restart() {
	e.t.Helper()
	e.stop()
	e.start()
}

// move makes an engine that watches all namespaces work on a new release in another namespace, for
// another test.
func (e *engine) move(t testing.TB, namespace string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.t, e.namespace, e.baseline = t, namespace, helm.Baseline{}
	e.journal.forget()
}

func (e *engine) hear(release cache.ObjectName, change helm.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if release != e.key() {
		return
	}
	if change == helm.ObjectChanged {
		e.changes++
	}
	close(e.changed)
	e.changed = make(chan struct{})
}

// heard returns the number of object changes that the engine has reported.
func (e *engine) heard() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changes
}

func (e *engine) key() cache.ObjectName {
	return cache.ObjectName{Namespace: e.namespace, Name: releaseName}
}

func (e *engine) home() (string, *journal) { return e.namespace, &e.journal }

// desired returns the desired release with its content.
func (e *engine) desired(chart source, values map[string]any) helm.Release {
	e.t.Helper()
	desired := e.release()
	desired.Chart, desired.Values = chart.in(e.namespace).engine(e.t), values
	return desired
}

// toAll consents to everything that a takeover would do.
func toAll(*helm.ConsentError) bool { return true }

// release returns the desired release without content. Like Helm, it may have objects in all
// namespaces, and adopts releases of other clients, with consent to all changes.
func (e *engine) release() helm.Release {
	return helm.Release{Namespace: e.namespace, Name: releaseName, Scope: helm.ScopeCluster, Adopt: true, Consents: toAll}
}

func (e *engine) deploy(ctx context.Context, chart source, values map[string]any) error {
	return e.pass(ctx, e.desired(chart, values))
}

// rollback gives the deployed revision up.
func (e *engine) rollback(ctx context.Context, revision int) error {
	deployed, err := e.Execute(ctx, e.release(), helm.Decision{Action: helm.ActionRollback, To: revision}, e.baseline)
	if deployed != nil {
		e.baseline = deployed.Baseline()
	}
	return err
}

// pass observes and acts once.
func (e *engine) pass(ctx context.Context, desired helm.Release) error {
	_, err := e.execute(ctx, desired)
	return err
}

// execute is like pass, and returns the deployed release.
func (e *engine) execute(ctx context.Context, desired helm.Release) (*helm.Deployed, error) {
	snapshot, err := e.Observe(ctx, e.key(), e.baseline)
	if err != nil {
		return nil, err
	}
	if e.last, err = e.Decide(desired, snapshot); err != nil {
		return nil, err
	}
	deployed, err := e.Execute(ctx, desired, e.last, e.baseline)
	if deployed != nil {
		e.baseline = deployed.Baseline()
	}
	return deployed, err
}

// maxPasses is far more than any operation needs.
const maxPasses = 10

// converge makes passes until no action is left. It fails after too many passes.
func (e *engine) converge(ctx context.Context, desired helm.Release) error {
	var errs []error
	for range maxPasses {
		err := e.pass(ctx, desired)
		if err == nil && e.last.Action == helm.ActionNone {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s because of %s: %w", e.last.Action, e.last.Cause, err))
	}
	return fmt.Errorf("not in the desired state after %d passes: %w", maxPasses, errors.Join(errs...))
}

func (e *engine) uninstall(ctx context.Context) error {
	_, err := e.Uninstall(ctx, e.release(), e.baseline)
	if err == nil {
		e.baseline = helm.Baseline{}
	}
	return err
}

// await waits until the condition holds for the engine's observation.
func (e *engine) await(what string, condition func(helm.Snapshot) bool) {
	e.t.Helper()
	var snapshot helm.Snapshot
	err := e.follow(func(ctx context.Context) (done bool, err error) {
		snapshot, err = e.Observe(ctx, e.key(), e.baseline)
		return err == nil && condition(snapshot), err
	})
	if err != nil {
		e.t.Fatalf("%s: not observed: %+v: %v", what, snapshot, err)
	}
}

// patience is the longest time until a change is reported. Milliseconds are enough on an idle
// machine, unless watches are broken: those restart after some seconds.
const patience = 40 * time.Second

// follow calls done at the start and whenever the engine reports a change, until done returns true.
// A change that is not reported makes follow fail.
func (e *engine) follow(look func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	for {
		e.mu.Lock()
		changed := e.changed
		e.mu.Unlock()
		done, err := look(ctx)
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if done, _ := look(e.t.Context()); done {
				return errors.New("the engine knows, and did not tell")
			}
			return errors.Join(ctx.Err(), err)
		}
	}
}

// awaitRecord waits until the engine has observed the newest revision, which another client
// created.
func (e *engine) awaitRecord(revision int, status string) {
	e.t.Helper()
	e.await(fmt.Sprintf("revision %d %s", revision, status), func(snapshot helm.Snapshot) bool {
		return snapshot.Record != nil && snapshot.Record.Revision == revision && snapshot.Record.Status == status
	})
}

// assertAsDesired asserts that the engine finds no action.
func (e *engine) assertAsDesired(desired helm.Release) {
	e.t.Helper()
	snapshot, err := e.Observe(e.t.Context(), e.key(), e.baseline)
	if err != nil {
		e.t.Fatal(err)
	}
	decision, err := e.Decide(desired, snapshot)
	if err != nil || decision.Action != helm.ActionNone {
		e.t.Errorf("the engine would %s because of %s (%v), error %v", decision.Action, decision.Cause, decision.Drifts, err)
	}
}
