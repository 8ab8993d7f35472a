// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// installRequests are the requests of an install of the embedded chart.
var installRequests = []string{
	"create secrets default",
	"apply secrets default/web",
	"apply configmaps default/web",
	"apply services default/web",
	"apply deployments default/web",
	"update secrets default/sh.helm.release.v1.web.v1",
}

func wantRequests(t *testing.T, f *fixture, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), f.TakeRequests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func wantRecords(t *testing.T, f *fixture, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), f.HelmRecords()); diff != "" {
		t.Errorf("release records (-want +got):\n%s", diff)
	}
}

func TestNew(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("an engine without an API server")
	}
	engine, err := New(Config{RESTConfig: &rest.Config{Host: "http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if engine.HasSynced() {
		t.Error("the engine knows the records before it runs")
	}
	if engine.maxHistory != DefaultMaxHistory || engine.timeout != DefaultTimeout {
		t.Errorf("%d revisions, %s, want the defaults", engine.maxHistory, engine.timeout)
	}
}

// blanked is a manifest whose Secrets have no values.
func blanked(t *testing.T, manifest string) string {
	t.Helper()
	var written strings.Builder
	for _, text := range strings.SplitAfter(manifest, "\n---\n") {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "---\n"), "---\n")
		if strings.Contains(text, "kind: Secret\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
				t.Fatal(err)
			}
			object.Object["data"] = map[string]any{"apiKey": ""}
			content, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			text = string(content)
		}
		written.WriteString("---\n" + text)
	}
	return written.String()
}

func TestInstall(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		decision := f.decide(desired)
		deployed, err := f.engine.Execute(t.Context(), desired, decision, Baseline{})
		if err != nil {
			t.Fatal(err)
		}
		wantRequests(t, f, installRequests...)
		wantRecords(t, f, "web.v1 deployed")

		recorded := f.record(desired)
		sum := hmac.New(sha256.New, []byte(recorded.Labels[record.SaltLabel]))
		sum.Write([]byte(blanked(t, recorded.Manifest)))
		want := &Deployed{
			Revision: 1, Chart: "demo-app", ChartVersion: "0.1.0", AppVersion: "1.27", ChartDigest: desired.Chart.Digest()[:16],
			ManifestHash: hex.EncodeToString(sum.Sum(nil)), Revisions: deployed.Revisions,
		}
		for _, kind := range []string{"Secret", "ConfigMap", "Service", "Deployment"} {
			object := f.Object(kind, "default/web")
			want.Inventory = append(want.Inventory, InventoryEntry{
				ObjectReference: ObjectReference{APIVersion: object.GetAPIVersion(), Kind: kind, Namespace: "default", Name: "web"},
				UID:             object.GetUID(),
				Digest:          fingerprint(object.GetManagedFields()),
			})
		}
		if diff := cmp.Diff(want, deployed); diff != "" {
			t.Errorf("deployed (-want +got):\n%s", diff)
		}
		if len(f.operations) != 1 || f.operations[0].Action != "Install" || f.operations[0].Release != desired.Key() || f.operations[0].Err != nil {
			t.Errorf("operations: %+v", f.operations)
		}
	})
}

// TestDiscoveryRunsOnce: all operations on a release together discover only once.
func TestDiscoveryRunsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		first, second := demo(t, nil), demo(t, map[string]any{"message": "second"})
		f.must(first, ActionInstall, CauseNotInstalled)
		if f.TakeDiscoveries() == 0 {
			t.Error("the first operation knows the kinds without asking")
		}
		f.must(second, ActionUpgrade, CauseInputsChanged)
		f.Edit("ConfigMap", "default/web", "kubectl", change("theirs", "data", "index.html"))
		f.heard()
		f.must(second, ActionRepair, CauseDrift)
		if err := f.rollback(second, 1); err != nil {
			t.Fatal(err)
		}
		f.uninstall(first)
		f.baseline = Baseline{}
		f.must(first, ActionInstall, CauseNotInstalled)
		if got := f.TakeDiscoveries(); got != 0 {
			t.Errorf("%d discovery requests for what is known", got)
		}
	})
}

// TestSteadyState: a release in its desired state costs no request, neither while the engine
// runs nor after a restart.
func TestSteadyState(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.TakeRequests()
		f.must(desired, ActionNone, CauseNone) // Before the watches show the install.
		synctest.Wait()
		f.must(desired, ActionNone, CauseNone)
		f.restart()
		f.must(desired, ActionNone, CauseNone)
		wantRequests(t, f)
		if deployed, err := f.engine.Execute(t.Context(), desired, Decision{Action: ActionNone}, f.baseline); deployed != nil || err != nil {
			t.Errorf("nothing to do gives %v, %v", deployed, err)
		}
	})
}

func TestUpgrade(t *testing.T) {
	const v1, v2 = "default/sh.helm.release.v1.web.v1", "default/sh.helm.release.v1.web.v2"
	tests := map[string]struct {
		values map[string]any
		want   []string
	}{
		"message": {
			map[string]any{"message": "Hi"},
			[]string{"create secrets default", "apply configmaps default/web", "apply deployments default/web", "update secrets " + v1, "update secrets " + v2},
		},
		"replicas": {
			map[string]any{"replicaCount": 2},
			[]string{"create secrets default", "apply deployments default/web", "update secrets " + v1, "update secrets " + v2},
		},
		"a value that is the default": { // The inputs differ, the objects do not.
			map[string]any{"replicaCount": 1},
			[]string{"create secrets default", "update secrets " + v1, "update secrets " + v2},
		},
	}
	for name, tc := range tests {
		for _, held := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/watches held %t", name, held), func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fixture) {
					f.must(demo(t, nil), ActionInstall, CauseNotInstalled)
					f.heard()
					f.HoldWatches(held)
					f.TakeRequests()
					f.must(demo(t, tc.values), ActionUpgrade, CauseInputsChanged)
					wantRequests(t, f, tc.want...)
					wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
					f.must(demo(t, tc.values), ActionNone, CauseNone)
					f.HoldWatches(false)
					synctest.Wait()
					f.must(demo(t, tc.values), ActionNone, CauseNone)
				})
			})
		}
	}
}

// TestUpgradeRemovesObjects: objects that the chart no longer has are deleted, and new objects are
// created.
func TestUpgradeRemovesObjects(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1")}), ActionInstall, CauseNotInstalled)
		f.TakeRequests()
		f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/c.yaml": configMap("c", "1")}), ActionUpgrade, CauseInputsChanged)
		wantRequests(t, f,
			"get configmaps default/c", "create secrets default", "apply configmaps default/c", "delete configmaps default/b",
			"update secrets default/sh.helm.release.v1.web.v1", "update secrets default/sh.helm.release.v1.web.v2",
		)
		if diff := cmp.Diff([]string{"ConfigMap default/a", "ConfigMap default/c"}, f.Names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
		if got := len(f.baseline.Inventory); got != 2 {
			t.Errorf("the inventory has %d entries, want 2", got)
		}
	})
}

// TestOwner: the release's objects have an owner, but for those that cannot.
func TestOwner(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{
			"templates/a.yaml":     configMap("a", "1"),
			"templates/other.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: other}\n",
			"templates/role.yaml":  "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: web}\n",
			"templates/kept.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}\n",
			"templates/hook.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n",
			"templates/list.yaml":  "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: item}\n",
		})
		owner := demoOwner()
		desired.Owner = &owner
		f.must(desired, ActionInstall, CauseNotInstalled)
		got := map[string]int{}
		for _, name := range f.Names() {
			kind, key, _ := strings.Cut(name, " ")
			got[name] = len(f.Object(kind, key).GetOwnerReferences())
		}
		want := map[string]int{
			"ConfigMap default/a": 1, "ConfigMap default/item": 1, "ConfigMap default/kept": 0, "ConfigMap default/hook": 1,
			"ConfigMap other/b": 0, "ClusterRole web": 0,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("owners (-want +got):\n%s", diff)
		}
		f.must(desired, ActionNone, CauseNone)

		again := demoOwner()
		again.UID = "u2"
		desired.Owner = &again
		f.must(desired, ActionUpgrade, CauseInputsChanged)
		if diff := cmp.Diff([]metav1.OwnerReference{again}, f.Object("ConfigMap", "default/a").GetOwnerReferences()); diff != "" {
			t.Errorf("owners after a new owner (-want +got):\n%s", diff)
		}
	})
}

// TestRandomChart: a chart that renders differently each time does not loop.
func TestRandomChart(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", `{{ randAlphaNum 20 }}`)})
		f.must(desired, ActionInstall, CauseNotInstalled)
		value := f.Object("ConfigMap", "default/a").Object["data"]
		synctest.Wait()
		f.must(desired, ActionNone, CauseNone)
		f.Remove("ConfigMap", "default/a")
		synctest.Wait()
		f.must(desired, ActionRepair, CauseDrift)
		if diff := cmp.Diff(value, f.Object("ConfigMap", "default/a").Object["data"]); diff != "" {
			t.Errorf("the repair rendered again (-installed +repaired):\n%s", diff)
		}
	})
}

// TestStringData: a Secret written with stringData drifts like any other.
func TestStringData(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {key: geheim}\n"})
		f.must(desired, ActionInstall, CauseNotInstalled)
		synctest.Wait()
		f.Edit("Secret", "default/a", "kubectl", func(object *unstructured.Unstructured) {
			object.Object["data"] = map[string]any{"key": "bWluZQ=="}
		})
		synctest.Wait()
		f.must(desired, ActionRepair, CauseDrift)
		f.must(desired, ActionNone, CauseNone)
	})
}

// TestCancelledContext: an operation goes on when its caller gives up, so that
// a shutdown leaves nothing pending.
func TestCancelledContext(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f.With(func() {
			f.Fault = func(fakeapi.Request) fakeapi.Fault {
				cancel()
				return fakeapi.NoFault
			}
		})
		desired := demo(t, nil)
		deployed, err := f.engine.Execute(ctx, desired, Decision{Action: ActionInstall}, Baseline{})
		if err != nil || deployed == nil || ctx.Err() == nil {
			t.Fatalf("Execute = %v, %v, context: %v", deployed, err, ctx.Err())
		}
		wantRecords(t, f, "web.v1 deployed")
		if _, err := f.engine.Uninstall(ctx, desired, deployed.Baseline()); err != nil {
			t.Fatal(err)
		}
		wantRecords(t, f)
	})
}

// TestBusy: two engines at one release do not both make a revision.
func TestBusy(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.HoldWatches(true) // This engine does not see what the other one does.
		other := newEngineOn(t, f.Server)
		f.HoldWatches(false)
		synctest.Wait()
		f.HoldWatches(true)
		if _, err := other.Execute(t.Context(), desired, Decision{Action: ActionInstall}, Baseline{}); err != nil {
			t.Fatal(err)
		}
		_, err := f.engine.Execute(t.Context(), desired, Decision{Action: ActionInstall}, Baseline{})
		_ = wantError[*BusyError](t, err)
		wantRecords(t, f, "web.v1 deployed")
	})
}

// newEngineOn starts another engine on the same API server.
func newEngineOn(t *testing.T, server *fakeapi.Server) *Engine {
	t.Helper()
	other := &fixture{Server: server, t: t}
	server.HoldWatches(false)
	other.start(other.config())
	return other.engine
}

// TestUnknownAction: a decision from nowhere does nothing.
func TestUnknownAction(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		if _, err := f.engine.Execute(t.Context(), demo(t, nil), Decision{Action: "Dance"}, Baseline{}); err == nil {
			t.Error("the engine dances")
		}
		wantRequests(t, f)
	})
}

// TestManyReleases runs operations on many releases, and several on each, at
// the same time.
func TestManyReleases(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		const releases, workers = 12, 3
		var running sync.WaitGroup
		for i := range releases {
			desired := demo(t, nil)
			desired.Name = fmt.Sprintf("web-%d", i)
			for range workers {
				running.Go(func() {
					baseline := Baseline{}
					for range 4 {
						observed, err := f.engine.Observe(t.Context(), desired.Key(), baseline)
						if err != nil {
							t.Errorf("Observe %s: %v", desired.Name, err)
							return
						}
						decision, err := f.engine.Decide(desired, observed)
						if err != nil {
							t.Errorf("Decide %s: %v", desired.Name, err)
							return
						}
						deployed, err := f.engine.Execute(t.Context(), desired, decision, baseline)
						if deployed != nil {
							baseline = deployed.Baseline()
						}
						// Another worker may have been faster.
						if err != nil && IsTerminal(err) {
							t.Errorf("%s %s: %v", decision.Action, desired.Name, err)
						}
					}
				})
			}
		}
		running.Wait()
		synctest.Wait()
		if got := len(f.Names()); got != 4*releases {
			t.Errorf("%d objects, want %d", got, 4*releases)
		}
	})
}

func TestKeyedMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks keyedMutex
		a, b := cache.ObjectName{Name: "a"}, cache.ObjectName{Name: "b"}
		unlock := locks.lock(a)
		locks.lock(b)() // Another key is free.
		entered := make(chan struct{})
		go func() {
			defer locks.lock(a)()
			close(entered)
		}()
		select {
		case <-entered:
			t.Error("two hold the lock of one key")
		default:
		}
		unlock()
		<-entered
		synctest.Wait()
		if len(locks.locks) != 0 {
			t.Errorf("%d locks are kept for nobody", len(locks.locks))
		}
	})
}
