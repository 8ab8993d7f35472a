// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/test/expect"
)

// podDeployment is a template of a Deployment with one pod.
const podDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: 1
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: a, image: {{ .Values.image | default "pause:3.8" | quote }}, args: [{{ .Values.size | quote }}]}]}
`

// probes is a kind whose releases have a Deployment.
func probes(t *testing.T, change ...func(*watches.ReleaseKind)) watches.ReleaseKind {
	t.Helper()
	kind := watches.ReleaseKind{GroupVersionKind: memcached, Chart: chartOf(t, "1.0.0", "deployment.yaml", podDeployment), Revision: "first"}
	for _, c := range change {
		c(&kind)
	}
	return kind
}

func withImage(image string) func(*watches.ReleaseKind) {
	return func(k *watches.ReleaseKind) {
		k.Overrides, k.Revision = map[string]string{"image": image}, k.Revision+image
	}
}

func withLimits(active, failed int) func(*watches.ReleaseKind) {
	return func(k *watches.ReleaseKind) { k.Rollout = rollout.Limits{Active: active, Failed: failed} }
}

// becomeReady has Deployments report their present generations as ready. A Deployment that changes
// meanwhile is not ready.
func (w *world) becomeReady(names ...string) {
	w.t.Helper()
	generations := map[string]int64{}
	for _, name := range names {
		generations[name] = w.Object("Deployment", name).GetGeneration()
	}
	for _, name := range names {
		w.Edit("Deployment", name, "kube-controller-manager", func(object *unstructured.Unstructured) {
			object.Object["status"] = map[string]any{
				"observedGeneration": generations[name], "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1),
				"conditions": []any{map[string]any{"type": "Available", "status": "True"}},
			}
		})
	}
	w.Settle()
}

// fleet creates Memcacheds, whose Deployments become ready.
func (w *world) fleet(count int) (names []string) {
	w.t.Helper()
	for i := range count {
		names = append(names, fmt.Sprintf("default/m%02d", i))
		w.create(names[i], size3)
	}
	w.becomeReady(names...)
	return names
}

// images counts the images of the Deployments.
func (w *world) images(names []string) map[string]int {
	w.t.Helper()
	found := map[string]int{}
	for _, name := range names {
		containers, _, err := unstructured.NestedSlice(w.Object("Deployment", name).Object, "spec", "template", "spec", "containers")
		expect.NoError(w.t, err)
		found[fmt.Sprint(containers[0].(map[string]any)["image"])]++
	}
	return found
}

// TestFleetChangesFewAtATime: a new override, chart, default value or template reaches 10 of 30 custom
// resources until their workloads are ready, whether or not they were ready before.
func TestFleetChangesFewAtATime(t *testing.T) {
	changes := map[string]func(*watches.ReleaseKind){
		"override": withImage("pause:3.9"),
		"default value of the chart": func(k *watches.ReleaseKind) {
			k.Chart, k.Revision = chartOf(t, "1.0.0", "deployment.yaml", deploymentWith("pause:3.9")), "second"
		},
		"version of the chart": func(k *watches.ReleaseKind) {
			k.Chart, k.Revision = chartOf(t, "1.1.0", "deployment.yaml", deploymentWith("pause:3.9")), "second"
		},
		"values template": func(k *watches.ReleaseKind) {
			k.Revision = "second"
			k.Translator = func(context.Context, *unstructured.Unstructured) (map[string]any, error) {
				return map[string]any{"size": int64(3), "image": "pause:3.9"}, nil
			}
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			bubble(t, []watches.ReleaseKind{probes(t)}, func(w *world) {
				names := w.fleet(30)
				expect.NoError(w.t, w.manager.Update(probes(t, change)))
				w.Settle()
				expect.Equal(w.t, "images", map[string]int{"pause:3.8": 20, "pause:3.9": 10}, w.images(names))
				w.becomeReady(names...)
				expect.Equal(w.t, "images after the first are ready", map[string]int{"pause:3.8": 10, "pause:3.9": 20}, w.images(names))
				w.becomeReady(names...)
				w.becomeReady(names...)
				expect.Equal(w.t, "images in the end", map[string]int{"pause:3.9": 30}, w.images(names))
				w.has("conditions", w.conditions(names[0]), "Ready True Healthy")
			})
		})
	}
}

func deploymentWith(image string) string {
	return `{{- $image := "` + image + `" }}` + "\n" + `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: 1
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: a, image: {{ $image }}, args: [{{ .Values.size | quote }}]}]}
`
}

// TestFleetThatIsNotReady: custom resources that were never ready change a few at a time, too, and
// hold a turn no longer than their timeout.
func TestFleetThatIsNotReady(t *testing.T) {
	bubble(t, []watches.ReleaseKind{probes(t)}, func(w *world) {
		var names []string
		for i := range 5 {
			names = append(names, fmt.Sprintf("default/m%02d", i))
			w.create(names[i], size3)
		}
		expect.NoError(w.t, w.manager.Update(probes(t, withImage("pause:3.9"), withLimits(2, 1))))
		w.Settle()
		expect.Equal(w.t, "images", map[string]int{"pause:3.8": 3, "pause:3.9": 2}, w.images(names))
		w.Wait(15 * time.Minute)
		expect.Equal(w.t, "images after the timeouts", map[string]int{"pause:3.9": 5}, w.images(names))
	})
}

// TestFleetHoldsNoOwnChange: a change of the spec, a new custom resource and force-at do not wait.
func TestFleetHoldsNoOwnChange(t *testing.T) {
	bubble(t, []watches.ReleaseKind{probes(t)}, func(w *world) {
		names := w.fleet(4)
		expect.NoError(w.t, w.manager.Update(probes(t, withImage("pause:3.9"), withLimits(1, 1))))
		w.Settle()
		waiting := w.waitingFor(names, "RolloutQueued")
		expect.Equal(w.t, "waiting", 3, len(waiting))
		w.has("conditions of a waiting one", w.conditions(waiting[0]),
			"UpgradeHeld True RolloutQueued", "Ready False RolloutQueued", "Deployed True InstallSuccessful", "Irreconcilable False Reconciled")
		w.change(waiting[0], func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(4)} })
		w.change(waiting[1], func(object *unstructured.Unstructured) {
			annotate(object, "demo.example.com/requested-at", "now", "demo.example.com/force-at", "now")
		})
		w.create("default/new", size3)
		expect.Equal(w.t, "waiting after their own changes", waiting[2:], w.waitingFor(append(names, "default/new"), "RolloutQueued"))
		expect.Equal(w.t, "images", map[string]int{"pause:3.8": 1, "pause:3.9": 4}, w.images(append(names, "default/new")))
	})
}

// waitingFor returns the Memcacheds whose upgrade waits for this reason.
func (w *world) waitingFor(names []string, reason string) (waiting []string) {
	w.t.Helper()
	for _, name := range names {
		for _, c := range w.typed(name) {
			if c.Type == "UpgradeHeld" && c.Reason == reason {
				waiting = append(waiting, name)
			}
		}
	}
	return waiting
}

// attempted returns the Memcacheds with an upgrade in their history.
func (w *world) attempted(names []string) (attempted []string) {
	w.t.Helper()
	for _, name := range names {
		if slices.ContainsFunc(w.changes(name), func(change string) bool { return strings.HasPrefix(change, "Upgrade ") }) {
			attempted = append(attempted, name)
		}
	}
	return attempted
}

// TestFleetHalts: failures stop the rollout, also after a restart and after another change that fails,
// too. It goes on once the cause is corrected.
func TestFleetHalts(t *testing.T) {
	broken := func(k *watches.ReleaseKind) {
		k.Chart, k.Revision = chartOf(t, "1.0.0", "deployment.yaml", podDeployment, "fails.yaml", `{{ fail "no" }}`), "broken"
	}
	bubble(t, []watches.ReleaseKind{probes(t)}, func(w *world) {
		names := w.fleet(8)
		expect.NoError(w.t, w.manager.Update(probes(t, broken, withLimits(1, 1))))
		w.Wait(time.Minute) // Custom resources that wait report the halt later.
		failed, halted := w.attempted(names), w.waitingFor(names, "RolloutHalted")
		expect.Equal(w.t, "custom resources that failed", 1, len(failed))
		expect.Equal(w.t, "custom resources that wait", 7, len(halted))
		w.has("conditions of a halted one", w.conditions(halted[0]), "Ready False RolloutHalted", "Deployed True InstallSuccessful")

		w.Stop()
		w.start(probes(t, broken, withLimits(1, 1)))
		w.Wait(time.Minute)
		expect.Equal(w.t, "custom resources that failed before a restart or after it", failed, w.attempted(names))
		expect.Equal(w.t, "custom resources that wait after a restart", halted, w.waitingFor(names, "RolloutHalted"))

		expect.NoError(w.t, w.manager.Update(probes(t, broken, withImage("pause:3.9"), withLimits(1, 1))))
		w.Wait(time.Minute)
		expect.Equal(w.t, "custom resources that failed with another override", failed, w.attempted(names))
		expect.Equal(w.t, "custom resources that wait with another override", halted, w.waitingFor(names, "RolloutHalted"))
		expect.Equal(w.t, "images", map[string]int{"pause:3.8": 8}, w.images(names))

		expect.NoError(w.t, w.manager.Update(probes(t, withImage("pause:3.9"), withLimits(1, 1))))
		w.Settle()
		for range names {
			w.becomeReady(names...)
		}
		expect.Equal(w.t, "images in the end", map[string]int{"pause:3.9": 8}, w.images(names))
	})
}

// TestVersionIsNoInput: another version of the same API upgrades nothing, and runs no hook.
func TestVersionIsNoInput(t *testing.T) {
	bubble(t, []watches.ReleaseKind{probes(t)}, func(w *world) {
		w.fleet(3)
		v2 := memcacheds
		v2.Version = "v2"
		w.Serve(v2, "Memcached", true)
		w.TakeRequests()
		expect.NoError(w.t, w.manager.Update(probes(t, func(k *watches.ReleaseKind) { k.GroupVersionKind.Version, k.Revision = "v2", "second" })))
		w.Settle()
		for _, request := range w.TakeRequests() {
			w.t.Errorf("request %q", request)
		}
		expect.Equal(w.t, "records", 3, len(w.HelmRecords()))
	})
}

// TestKindWaits: custom resources of a kind whose values are not known keep their releases, and say
// why.
func TestKindWaits(t *testing.T) {
	waits := func(k *watches.ReleaseKind) { k.Waits, k.Revision = "a variable is not set", "waits" }
	bubble(t, []watches.ReleaseKind{probes(t)}, func(w *world) {
		names := w.fleet(1)
		expect.NoError(w.t, w.manager.Update(probes(t, waits)))
		w.Settle()
		w.has("conditions", w.conditions(names[0]), "Ready False ValuesInvalid", "Irreconcilable True ErrorGettingValues", "Deployed True InstallSuccessful")
		expect.Contains(w.t, "message", w.message(names[0], "Ready"), "a variable is not set")
		w.Delete("Deployment", names[0])
		w.Settle()
		expect.Equal(w.t, "images after a repair", map[string]int{"pause:3.8": 1}, w.images(names))
		w.create("default/new", size3)
		if w.Object("Deployment", "default/new") != nil {
			w.t.Error("a release was installed without its values")
		}
		w.Delete("Memcached", names[0])
		w.Settle()
		if w.Object("Deployment", names[0]) != nil {
			w.t.Error("the release was not uninstalled")
		}
	})
}
