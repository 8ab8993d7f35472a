// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/charts"
	"github.com/example/demoapp-controller/pkg/helm/guard"
	"github.com/example/demoapp-controller/test/fakeapi"
	"github.com/example/demoapp-controller/test/synctestmain"
)

func TestMain(m *testing.M) { synctestmain.Run(m) }

// fixture is an engine that runs on a fake API server, and the state that a controller would keep
// for one release.
type fixture struct {
	*fakeapi.Server

	t      *testing.T
	engine *Engine
	// stop ends the engine, as the end of the process does.
	stop func()

	baseline Baseline

	mu         sync.Mutex
	changes    []string
	operations []Operation
	// unwatched counts the errors of lists and watches, by resource.
	unwatched map[string]int
}

// bubble runs a test with an engine in a synctest bubble. Inside of it, only the
// bubble's own t may be used.
func bubble(t *testing.T, test func(*testing.T, *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newFixture(t)) })
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Server: fakeapi.New(t), t: t, unwatched: map[string]int{}}
	f.start(f.config())
	return f
}

// config is the configuration of an engine on the server.
func (f *fixture) config() Config {
	return Config{RESTConfig: f.RESTConfig(), HTTPClient: f.HTTPClient()}
}

// start starts an engine, in place of the one before.
func (f *fixture) start(config Config) {
	f.t.Helper()
	config.Logger = slog.New(slog.DiscardHandler)
	config.OnOperation = func(operation Operation) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.operations = append(f.operations, operation)
	}
	config.OnWatchError = func(watched string, _ error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.unwatched[watched]++
	}
	engine, err := New(config)
	if err != nil {
		f.t.Fatal(err)
	}
	engine.Subscribe(func(release cache.ObjectName, change Change) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changes = append(f.changes, map[Change]string{
			ObjectChanged: "object", HealthChanged: "health", RecordChanged: "record",
		}[change]+" "+release.String())
	})
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		engine.Run(ctx)
	}()
	f.engine = engine
	f.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	f.t.Cleanup(f.stop)
	synctest.Wait()
	if !engine.HasSynced() {
		f.t.Fatal("the engine knows no records after its start")
	}
}

// expectWatchErrors checks that a list or watch failed.
func (f *fixture) expectWatchErrors(watched string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unwatched[watched] == 0 {
		f.t.Errorf("no error of %s is reported: %v", watched, f.unwatched)
	}
}

// restart loses everything that is only in memory, but for the baseline, which
// a controller keeps in its status.
func (f *fixture) restart() {
	f.t.Helper()
	f.stop()
	f.start(f.config())
}

// heard returns the changes since the last call, in order and each once.
func (f *fixture) heard() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	heard := slices.Compact(slices.Sorted(slices.Values(f.changes)))
	f.changes = nil
	return heard
}

// decide observes the release and returns the decision.
func (f *fixture) decide(desired Release) Decision {
	f.t.Helper()
	observed, err := f.engine.Observe(f.t.Context(), desired.Key(), f.baseline)
	if err != nil {
		f.t.Fatalf("Observe: %v", err)
	}
	decision, err := f.engine.Decide(desired, observed)
	if err != nil {
		f.t.Fatalf("Decide: %v", err)
	}
	return decision
}

// reconcile executes the decision, as a controller does, and returns it.
func (f *fixture) reconcile(desired Release) (Decision, error) {
	f.t.Helper()
	observed, err := f.engine.Observe(f.t.Context(), desired.Key(), f.baseline)
	if err != nil {
		return Decision{}, err
	}
	decision, err := f.engine.Decide(desired, observed)
	if err != nil {
		return decision, err
	}
	deployed, err := f.engine.Execute(f.t.Context(), desired, decision, f.baseline)
	if err == nil && deployed != nil {
		f.baseline = deployed.Baseline()
	}
	return decision, err
}

// must reconciles and expects a certain action.
func (f *fixture) must(desired Release, action Action, cause Cause) {
	f.t.Helper()
	decision, err := f.reconcile(desired)
	if err != nil {
		f.t.Fatalf("%s: %v", decision.Action, err)
	}
	if decision.Action != action || decision.Cause != cause {
		f.t.Fatalf("decided on %s (%s), want %s (%s)", decision.Action, decision.Cause, action, cause)
	}
}

// record reads the newest record of the release, as Helm does.
func (f *fixture) record(desired Release) *releasev1.Release {
	f.t.Helper()
	store := f.open(desired)
	newest := store.newest()
	if newest == nil {
		f.t.Fatalf("release %s has no record", desired.Key())
	}
	rls, _, err := store.read(newest.Revision)
	if err != nil {
		f.t.Fatal(err)
	}
	return rls
}

// open returns the records of the release as an operation sees them.
func (f *fixture) open(release Release) *store {
	f.t.Helper()
	store, err := f.engine.newStore(f.t.Context(), release, f.baseline, guard.Bounds{Namespace: release.Namespace}, time.Now().Add(time.Minute), f.engine.logger)
	if err != nil {
		f.t.Fatal(err)
	}
	return store
}

// demo is a release of the embedded chart.
func demo(t *testing.T, values map[string]any) Release {
	t.Helper()
	chart, err := chart.LoadFS(charts.DemoApp(), ".")
	if err != nil {
		t.Fatal(err)
	}
	merged := map[string]any{"apiKey": "verysecret"}
	maps.Copy(merged, values)
	return Release{Namespace: "default", Name: "web", Chart: chart, Values: merged}
}

// demoOwner is the owner of the demo release.
func demoOwner() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: "demo.example.com/v1alpha1", Kind: "DemoApp", Name: "web", UID: "u1",
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
}

// made is a release of a chart that consists of the given templates.
func made(t *testing.T, templates map[string]string) Release {
	t.Helper()
	return Release{Namespace: "default", Name: "web", Chart: testChart(t, templates), Scope: ScopeCluster}
}

// testChart makes a chart of the given files. A Chart.yaml is added, and names
// without a folder are templates.
func testChart(t *testing.T, files map[string]string) *chart.Chart {
	t.Helper()
	chart, err := chart.LoadFS(chartFS(files), ".")
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

func chartFS(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{"Chart.yaml": {Data: []byte("apiVersion: v2\nname: test\nversion: 1.2.3\nappVersion: \"9\"\n")}}
	for name, content := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}

// configMap is a template.
func configMap(name, data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  key: \"" + data + "\"\n"
}

func wantError[T error](t *testing.T, err error) T {
	t.Helper()
	var want T
	if !errors.As(err, &want) {
		t.Fatalf("error is %v (%T), want a %T", err, err, want)
	}
	return want
}

// change is an edit that sets a field.
func change(value any, path ...string) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			panic(err)
		}
	}
}
