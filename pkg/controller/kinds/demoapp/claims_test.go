// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// atNodePort requests a node port.
func atNodePort(port int32) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) {
		app.Spec.Service = v1alpha1.ServiceSpec{Type: v1alpha1.ServiceTypeNodePort, NodePort: port}
	}
}

// bornAfter sets the creation time of an app.
func bornAfter(age time.Duration) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) { app.CreationTimestamp = metav1.NewTime(began.Add(age)) }
}

// atNoNodePort requests a Service without a node port.
func atNoNodePort(app *v1alpha1.DemoApp) { app.Spec.Service = v1alpha1.ServiceSpec{} }

// usesNodePort records a deployed node port.
func usesNodePort(port int32) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) { app.Status.NodePort = port }
}

// usesHost records a deployed host.
func usesHost(host string) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) { app.Status.IngressHost = host }
}

func TestClaims(t *testing.T) {
	tests := []struct {
		name string
		app  *v1alpha1.DemoApp
		want []string
	}{
		{"nothing", newApp("a"), nil},
		{"node port", newApp("a", atNodePort(30080)), []string{"node port ns/30080"}},
		{"node port, requested and used", newApp("a", atNodePort(30080), usesNodePort(30080)), []string{"node port ns/30080"}},
		{"node port, requested and another used", newApp("a", atNodePort(30080), usesNodePort(30081)), []string{"node port ns/30080", "node port ns/30081"}},
		{"node port, only used", newApp("a", usesNodePort(30080)), []string{"node port ns/30080"}},
		{"node port, chosen by the cluster", newApp("a", atNodePort(0)), nil},
		{"node port, ignored for the type", newApp("a", func(app *v1alpha1.DemoApp) { app.Spec.Service.NodePort = 30080 }), nil},
		{"host", newApp("a", exposedBy("nginx")), []string{"host ns/web.example.com"}},
		{"host, requested and used", newApp("a", exposedBy("nginx"), usesHost("web.example.com")), []string{"host ns/web.example.com"}},
		{"host, requested and another used", newApp("a", exposedBy("nginx"), usesHost("old.example.com")), []string{
			"host ns/web.example.com", "host ns/old.example.com",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, claims := range allClaims {
				for _, value := range claims.Of(test.app) {
					got = append(got, claims.Name+" "+value)
				}
			}
			expect.Equal(t, "claims", test.want, got)
		})
	}
}

func TestClaimsChanged(t *testing.T) {
	app := func(change ...func(*v1alpha1.DemoApp)) *v1alpha1.DemoApp { return newApp("b", change...) }
	tests := []struct {
		name          string
		before, after *v1alpha1.DemoApp
		want          controller.Reason
	}{
		{"appears", nil, app(atNodePort(1)), controller.SpecChange},
		{"is deleted", app(atNodePort(1)), nil, controller.SpecChange},
		{"requests another", app(atNodePort(1)), app(atNodePort(2)), controller.SpecChange},
		{"requests none", app(atNodePort(1)), app(), controller.SpecChange},
		{"no longer uses it", app(usesNodePort(1)), app(), controller.SpecChange},
		{"requests the same", app(atNodePort(1)), app(atNodePort(1), says("other"), isUp), 0},
		{"requests none as before", app(), app(says("other")), 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "reason", test.want, claimsChanged(test.before, test.after))
		})
	}
}

func TestObstacle(t *testing.T) {
	const (
		older = `node port 1 belongs to DemoApp "o", which is older`
		has   = `node port 1 belongs to DemoApp "o", which has it already`
		inUse = `node port 1 is still in use by DemoApp "o"`
	)
	other := func(change ...func(*v1alpha1.DemoApp)) *v1alpha1.DemoApp { return newApp("o", change...) }
	tests := []struct {
		name    string
		others  []*v1alpha1.DemoApp
		want    string
		stalled bool
	}{
		{"no other app", nil, "", false},
		{"an older app", []*v1alpha1.DemoApp{other(atNodePort(1), bornAfter(-time.Second))}, older, true},
		{"an older app that uses it", []*v1alpha1.DemoApp{other(atNodePort(1), usesNodePort(1), bornAfter(-time.Second))}, older, true},
		{"an older app that no longer requests it", []*v1alpha1.DemoApp{other(atNodePort(2), usesNodePort(1), bornAfter(-time.Second))}, inUse, false},
		{"same age, later name", []*v1alpha1.DemoApp{other(atNodePort(1), bornAfter(0))}, "", false},
		{"same age, uses it", []*v1alpha1.DemoApp{other(atNodePort(1), usesNodePort(1), bornAfter(0))}, has, true},
		{"a younger app", []*v1alpha1.DemoApp{other(atNodePort(1), bornAfter(time.Second))}, "", false},
		{"a younger app that uses it", []*v1alpha1.DemoApp{other(atNodePort(1), usesNodePort(1), bornAfter(time.Second))}, inUse, true},
		{"a younger app that no longer requests it", []*v1alpha1.DemoApp{other(usesNodePort(1), bornAfter(time.Second))}, inUse, false},
		{"an app that uses it, and an older app", []*v1alpha1.DemoApp{
			newApp("p", usesNodePort(1), bornAfter(-time.Hour)), other(atNodePort(1), bornAfter(-time.Second)),
		}, older, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, stalled := nodePorts.obstacle(newApp("a", atNodePort(1), bornAfter(0)), test.others)
			expect.Equal(t, "message", test.want, got)
			expect.Equal(t, "stalled", test.stalled, stalled)
		})
	}
}

// TestHeldAppKeepsClaim: an app that no longer requests a node port keeps it until its
// release is upgraded.
func TestHeldAppKeepsClaim(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", atNodePort(30080), opensAt("10 3 * * *", "UTC")))
	w.create(newApp("b", atNodePort(30080)))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "nodePort", int32(30080), w.app("a").Status.NodePort)
	w.change("a", atNoNodePort)
	w.passes("a", controller.SpecChange)
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "Ready while the other app is held", "False ValidationFailed", w.is("b", apimeta.ConditionReady))
	expect.Equal(t, "Reconciling", "True ValidationFailed", w.is("b", apimeta.ConditionReconciling))
	expect.Equal(t, "message", `Node port 30080 is still in use by DemoApp "a"`, w.message("b", apimeta.ConditionReady))

	w.engine.Mutate(keyOf("a"), releasetest.Edit("Service"))
	w.passes("a", controller.Drift)
	expect.Equal(t, "nodePort after a repair", int32(30080), w.app("a").Status.NodePort)

	w.clock.Step(10 * time.Minute)
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "nodePort", int32(0), w.app("a").Status.NodePort)
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "Ready in the end", "True Healthy", w.is("b", apimeta.ConditionReady))
}

// TestRecreatedServiceLosesUnrequestedNodePort: a recreated Service does not have the
// node port of the deleted one.
func TestRecreatedServiceLosesUnrequestedNodePort(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", atNodePort(30080)))
	w.create(newApp("b", atNodePort(30080)))
	w.passes("a", controller.SpecChange)
	w.change("a", atNodePort(0))
	w.passes("a", controller.SpecChange)
	w.engine.Mutate(keyOf("a"), releasetest.Edit("Service"))
	w.passes("a", controller.Drift)
	expect.Equal(t, "nodePort after a repair", int32(30080), w.app("a").Status.NodePort)
	w.engine.Mutate(keyOf("a"), releasetest.Remove("Service"))
	w.passes("a", controller.Drift)
	expect.Equal(t, "nodePort", int32(0), w.app("a").Status.NodePort)
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "Ready of the other", "True Healthy", w.is("b", apimeta.ConditionReady))
	w.engine.Mutate(keyOf("b"), releasetest.Remove("Service"))
	w.passes("b", controller.Drift)
	expect.Equal(t, "nodePort of an app that requests it", int32(30080), w.app("b").Status.NodePort)
}

// TestClaimsAfterRollback: a failed upgrade without a revision does not release the
// claims.
func TestClaimsAfterRollback(t *testing.T) {
	tests := []struct {
		name string
		fail func(w *world)
		want int32
	}{
		{"failed upgrade without a revision", func(w *world) {
			w.engine.Failures = []error{&helm.HookError{Err: errPlain}}
			_, _ = w.pass("a", controller.SpecChange) // The status reports the error.
		}, 30080},
		{"unhealthy revision", func(w *world) {
			w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "0 of 1", 0))
			w.passesUntilWritten("a")
		}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.create(newApp("a", atNodePort(30080), func(app *v1alpha1.DemoApp) {
				app.Spec.WaitForReady, app.Spec.Remediation = true, &releasev1alpha1.Remediation{Retries: new(int32)}
			}))
			w.passes("a", controller.SpecChange)
			w.change("a", atNodePort(30081))
			test.fail(w)
			w.clock.Step(10 * time.Minute)
			w.passes("a", controller.Retry)
			expect.Equal(t, "Ready", "False RolledBack", w.is("a", apimeta.ConditionReady))
			expect.Equal(t, "nodePort", test.want, w.app("a").Status.NodePort)
		})
	}
}

// TestRingOfHostsStalls: each app would wait forever for the host of the next one.
func TestRingOfHostsStalls(t *testing.T) {
	ring := func(host, other string) string {
		return "Host " + host + ` is still in use by DemoApp "` + other + `", which waits for the host of this DemoApp: give one of them another host for a while`
	}
	t.Run("two hosts", func(t *testing.T) {
		w := newWorld(t)
		w.hasClasses("nginx")
		for age, name := range []string{"a", "b"} {
			w.create(newApp(name, exposedBy("nginx"), atHost("*."+name+".example.com"), bornAfter(time.Duration(age)*time.Second)))
			w.passes(name, controller.SpecChange)
		}
		w.change("a", atHost("*.b.example.com"))
		w.passes("a", controller.SpecChange)
		w.change("b", atHost("*.a.example.com"))
		w.passes("a", controller.SpecChange)
		w.passes("b", controller.SpecChange)
		expect.Equal(t, "message", ring("*.b.example.com", "b"), w.message("a", apimeta.ConditionReady))
		expect.Equal(t, "message of the other", ring("*.a.example.com", "a"), w.message("b", apimeta.ConditionReady))
		expect.Equal(t, "Stalled", "True ValidationFailed", w.is("a", apimeta.ConditionStalled))

		w.change("b", atHost("*.c.example.com"))
		w.passes("b", controller.SpecChange)
		w.passes("a", controller.SpecChange)
		w.change("b", atHost("*.a.example.com"))
		w.passes("b", controller.SpecChange)
		for _, name := range []string{"a", "b"} {
			expect.Equal(t, "Ready in the end", "True Healthy", w.is(name, apimeta.ConditionReady))
		}
	})
	t.Run("three hosts", func(t *testing.T) {
		w := newWorld(t)
		w.hasClasses("nginx")
		names := []string{"a", "b", "c"}
		for _, name := range names {
			w.create(newApp(name, exposedBy("nginx"), atHost("*."+name+".example.com")))
			w.passes(name, controller.SpecChange)
			expect.Equal(t, "ingressHost", "*."+name+".example.com", w.app(name).Status.IngressHost)
		}
		for i, name := range names {
			w.change(name, atHost("*."+names[(i+1)%3]+".example.com"))
		}
		for i, name := range names {
			w.passes(name, controller.SpecChange)
			other := names[(i+1)%3]
			expect.Equal(t, "message of "+name, ring("*."+other+".example.com", other), w.message(name, apimeta.ConditionReady))
		}
		w.delete("b")
		w.passes("b", controller.SpecChange)
		w.passes("a", controller.SpecChange)
		expect.Equal(t, "Ready after one app is deleted", "True Healthy", w.is("a", apimeta.ConditionReady))
	})
}

// TestUnrecordedClaimsAreRecordedAfterRestart: the first process ended before it wrote
// the status.
func TestUnrecordedClaimsAreRecordedAfterRestart(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", atNodePort(30080)))
	w.passes("a", controller.SpecChange)
	w.report("a", func(app *v1alpha1.DemoApp) {
		app.Status = v1alpha1.DemoAppStatus{ReleaseStatus: releasev1alpha1.ReleaseStatus{ObservedGeneration: -1}}
	})
	w.start(testChart(t, "1.0.0"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"patch demoapps a", "Reapply a BaselineUnknown", "apply demoapps/status a"}, w.calls.Take())
	expect.Equal(t, "nodePort", int32(30080), w.app("a").Status.NodePort)
}

// TestReservedHostIsRefused: an older app does not get a reserved host, even if the
// caches are stale.
func TestReservedHostIsRefused(t *testing.T) {
	w := newWorld(t)
	w.hasClasses("nginx")
	for _, name := range []string{"a", "b"} {
		w.create(newApp(name))
		w.passes(name, controller.SpecChange)
	}
	w.change("b", exposedBy("nginx"))
	w.engine.Executing = func() {
		w.engine.Executing = nil
		w.change("a", exposedBy("nginx"))
		w.sync()
		_, err := w.controller.Reconcile(t.Context(), keyOf("a"), controller.SpecChange)
		expect.NoError(t, err)
		expect.Equal(t, "message while message", `Host web.example.com is being assigned to DemoApp "b"`, w.message("a", apimeta.ConditionReady))
		expect.Equal(t, "Reconciling", "True ValidationFailed", w.is("a", apimeta.ConditionReconciling))
	}
	w.sync()
	_, err := w.controller.Reconcile(t.Context(), keyOf("b"), controller.SpecChange)
	expect.NoError(t, err)
	expect.Equal(t, "ingressHost", "web.example.com", w.app("b").Status.IngressHost)
	_, err = w.latePass("a", controller.SpecChange)
	expect.NoError(t, err)
	expect.Equal(t, "Stalled once the other app uses it", "True ValidationFailed", w.is("a", apimeta.ConditionStalled))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "ingressHost of the older app", "", w.app("a").Status.IngressHost)
}

// TestUnusedReservationIsReleased: an app that was refused a reserved host gets it if the
// reservation ends unused.
func TestUnusedReservationIsReleased(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		w.hasClasses("nginx")
		for _, name := range []string{"a", "b"} {
			w.create(newApp(name))
			advance(time.Second)
		}
		var once sync.Once
		goOn := make(chan struct{})
		w.engine.Executing = func() { once.Do(func() { <-goOn }) }
		w.engine.Failures = []error{errPlain}
		w.change("b", exposedBy("nginx"))
		settle()
		w.change("a", exposedBy("nginx"))
		settle()
		expect.Equal(t, "message", `Host web.example.com is being assigned to DemoApp "b"`, w.message("a", apimeta.ConditionReady))
		close(goOn)
		advance(time.Second)
		expect.Equal(t, "Ready in the end", "True Healthy", w.is("a", apimeta.ConditionReady))
		expect.Equal(t, "ingressHost", "web.example.com", w.app("a").Status.IngressHost)
		advance(time.Minute)
		expect.Equal(t, "message of the other", `Host web.example.com belongs to DemoApp "a", which is older`, w.message("b", apimeta.ConditionReady))
	})
}

// TestNodePortIsNotReserved: the API server decides which of two apps gets a node port.
func TestNodePortIsNotReserved(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b"} {
		w.create(newApp(name))
		w.passes(name, controller.SpecChange)
	}
	w.change("b", atNodePort(30080))
	w.engine.Executing = func() {
		w.engine.Executing = nil
		w.change("a", atNodePort(30080))
		w.sync()
		_, err := w.controller.Reconcile(t.Context(), keyOf("a"), controller.SpecChange)
		expect.NoError(t, err)
	}
	w.sync()

	_, err := w.controller.Reconcile(t.Context(), keyOf("b"), controller.SpecChange)

	expect.NoError(t, err)
	expect.Equal(t, "message", "Node port 30080 is this DemoApp's", w.message("a", v1alpha1.ConditionValidated))
}

// TestManyClaimantsDoNotEnqueueEachOther counts the passes after changes of apps that request
// the same port: at most two other apps have one, however many request the port.
func TestManyClaimantsDoNotEnqueueEachOther(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		const others = 40
		names := []string{"holder"}
		for i := range others {
			names = append(names, fmt.Sprintf("other-%02d", i))
		}
		for i, name := range names {
			w.create(newApp(name, atNodePort(30080), bornAfter(time.Duration(i)*time.Second)))
		}
		settle()
		expect.Equal(t, "Ready of the holder", "True Healthy", w.is("holder", apimeta.ConditionReady))
		observed := func(changed string) (count int) {
			for _, name := range names {
				if name != changed {
					count += w.engine.ObservationsOf(keyOf(name))
				}
			}
			return count
		}
		for _, change := range []struct {
			name string
			do   func()
			most int
		}{
			{"other-20", func() { w.change("other-20", atNoNodePort) }, 2},
			{"other-20", func() { w.change("other-20", atNodePort(30080)) }, 2},
			{"other-21", func() { w.delete("other-21") }, 2},
			// The next app is installed, which takes several passes.
			{"holder", func() { w.change("holder", atNoNodePort) }, 10},
		} {
			before := observed(change.name)
			change.do()
			settle()
			if got := observed(change.name) - before; got > change.most {
				t.Errorf("%d observations of other apps after a change of %s, want at most %d", got, change.name, change.most)
			}
		}
		expect.Equal(t, "Ready of the next", "True Healthy", w.is("other-00", apimeta.ConditionReady))
	})
}

func TestReleasedClaimGoesToNextOldest(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		for _, name := range []string{"c", "b", "a"} {
			w.create(newApp(name, atNodePort(30080)))
			advance(time.Second)
		}
		w.create(newApp("other", atNodePort(30081)))
		settle()
		expect.Equal(t, "Ready of the oldest", "True Healthy", w.is("c", apimeta.ConditionReady))
		for _, name := range []string{"a", "b"} {
			expect.Equal(t, "Ready of "+name, "False ValidationFailed", w.is(name, apimeta.ConditionReady))
			expect.Equal(t, "message of "+name, `Node port 30080 belongs to DemoApp "c", which is older`, w.message(name, apimeta.ConditionReady))
		}
		observations := w.engine.ObservationsOf(keyOf("other"))
		w.change("c", atNodePort(30082))
		settle()
		expect.Equal(t, "Ready of the next", "True Healthy", w.is("b", apimeta.ConditionReady))
		expect.Equal(t, "message of the last", `Node port 30080 belongs to DemoApp "b", which is older`, w.message("a", apimeta.ConditionReady))
		expect.Equal(t, "events of the last", []string{
			`Warning ValidationFailed Reconcile Node port 30080 belongs to DemoApp "c", which is older`,
		}, w.recorder.Of("a"))
		w.delete("b")
		settle()
		expect.Equal(t, "Ready of the last", "True Healthy", w.is("a", apimeta.ConditionReady))
		expect.Equal(t, "observations of an app with another port", observations, w.engine.ObservationsOf(keyOf("other")))
	})
}
