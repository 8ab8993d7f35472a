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

// engine plays through the engine, as a controller does: it looks, decides, acts, and keeps the baseline.
type engine struct {
	*helm.Engine

	// owner is the test that the engine lives for, and t the one that it works in.
	owner, t  testing.TB
	namespace string
	journal   journal
	baseline  helm.Baseline
	// last is what was last decided.
	last helm.Decision
	// options are what the engine was started with.
	options []func(*helm.Config)
	stop    func()

	mu sync.Mutex
	// news is closed and replaced at every change that the engine tells of; changes counts those of objects.
	news    chan struct{}
	changes int
	// siblings are the players that share the engine, this one among them.
	siblings []*engine
}

// newEngine starts an engine that lives until the test ends.
func newEngine(t testing.TB, namespace string, options ...func(*helm.Config)) *engine {
	t.Helper()
	e := &engine{owner: t, t: t, namespace: namespace, options: options, news: make(chan struct{})}
	e.siblings = []*engine{e}
	e.start()
	return e
}

// start starts the engine, which knows nothing of an earlier one but the baseline.
func (e *engine) start() {
	e.t.Helper()
	config := helm.Config{
		RESTConfig: shared.AdminConfig(), MaxHistory: maxHistory, Timeout: timeout, Logger: slog.New(slog.DiscardHandler),
		// Each engine would otherwise hear of the releases of all tests.
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

// everywhere has an engine watch all namespaces.
func everywhere(config *helm.Config) { config.Namespaces = nil }

// restart ends the engine, and starts another in its place.
func (e *engine) restart() {
	e.t.Helper()
	e.stop()
	e.start()
}

// move has an engine that watches all namespaces work on a new release in another one, for another test.
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
	close(e.news)
	e.news = make(chan struct{})
}

// heard is how many changes of objects the engine has told of.
func (e *engine) heard() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changes
}

func (e *engine) key() cache.ObjectName {
	return cache.ObjectName{Namespace: e.namespace, Name: releaseName}
}

func (e *engine) home() (string, *journal) { return e.namespace, &e.journal }

// wanted is the release as the engine is asked for it.
func (e *engine) wanted(chart source, values map[string]any) helm.Release {
	e.t.Helper()
	wanted := e.release()
	wanted.Chart, wanted.Values = chart.in(e.namespace).engine(e.t), values
	return wanted
}

// release is the release without its content. As Helm does, it reaches objects everywhere, and takes over releases that
// others made.
func (e *engine) release() helm.Release {
	return helm.Release{Namespace: e.namespace, Name: releaseName, Scope: helm.ScopeCluster, Adopt: true}
}

func (e *engine) deploy(ctx context.Context, chart source, values map[string]any) error {
	return e.pass(ctx, e.wanted(chart, values))
}

// rollback gives up what is deployed.
func (e *engine) rollback(ctx context.Context, revision int) error {
	deployed, err := e.Execute(ctx, e.release(), helm.Decision{Action: helm.ActionRollback, To: revision}, e.baseline)
	if deployed != nil {
		e.baseline = deployed.Baseline()
	}
	return err
}

// pass looks and acts once.
func (e *engine) pass(ctx context.Context, wanted helm.Release) error {
	snapshot, err := e.Observe(ctx, e.key(), e.baseline)
	if err != nil {
		return err
	}
	if e.last, err = e.Decide(wanted, snapshot); err != nil {
		return err
	}
	deployed, err := e.Execute(ctx, wanted, e.last, e.baseline)
	if deployed != nil {
		e.baseline = deployed.Baseline()
	}
	return err
}

// maxPasses is far more than it takes to get anywhere.
const maxPasses = 10

// converge passes until nothing is left to do. It fails when that takes too many passes.
func (e *engine) converge(ctx context.Context, wanted helm.Release) error {
	var errs []error
	for range maxPasses {
		err := e.pass(ctx, wanted)
		if err == nil && e.last.Action == helm.ActionNone {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s because of %s: %w", e.last.Action, e.last.Cause, err))
	}
	return fmt.Errorf("not as wanted after %d passes: %w", maxPasses, errors.Join(errs...))
}

func (e *engine) uninstall(ctx context.Context) error {
	err := e.Uninstall(ctx, e.release(), e.baseline)
	if err == nil {
		e.baseline = helm.Baseline{}
	}
	return err
}

// await waits until what the engine observes is as the condition asks.
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

// patience is how long a change may take to be told of. It takes milliseconds, but for a busy machine, and but for watches
// that are broken: those begin anew after some seconds.
const patience = 40 * time.Second

// follow looks until it is done, again whenever the engine tells of a change, and only then: a change that it does not
// tell of is an error.
func (e *engine) follow(look func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	for {
		e.mu.Lock()
		news := e.news
		e.mu.Unlock()
		done, err := look(ctx)
		if done {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			if done, _ := look(e.t.Context()); done {
				return errors.New("the engine knows, and did not tell")
			}
			return errors.Join(ctx.Err(), err)
		}
	}
}

// awaitRecord waits until the engine knows the newest revision of the release, which somebody else made.
func (e *engine) awaitRecord(revision int, status string) {
	e.t.Helper()
	e.await(fmt.Sprintf("revision %d %s", revision, status), func(snapshot helm.Snapshot) bool {
		return snapshot.Record != nil && snapshot.Record.Revision == revision && snapshot.Record.Status == status
	})
}

// assertAsWanted holds that the engine finds nothing to do.
func (e *engine) assertAsWanted(wanted helm.Release) {
	e.t.Helper()
	snapshot, err := e.Observe(e.t.Context(), e.key(), e.baseline)
	if err != nil {
		e.t.Fatal(err)
	}
	decision, err := e.Decide(wanted, snapshot)
	if err != nil || decision.Action != helm.ActionNone {
		e.t.Errorf("the engine would %s because of %s (%v), error %v", decision.Action, decision.Cause, decision.Drifts, err)
	}
}
