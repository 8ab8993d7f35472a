// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// atNodePort returns a DemoApp with a node port. Node ports are cluster-wide, so each test has its
// own.
func atNodePort(name string, port int32) *v1alpha1.DemoApp {
	app := apps.Named(name)
	app.Spec.Service = v1alpha1.ServiceSpec{Type: v1alpha1.ServiceTypeNodePort, NodePort: port}
	return app
}

// isInvalid returns a condition: the newest generation is invalid with this message.
func isInvalid(parts ...string) func(*v1alpha1.DemoApp) bool {
	return func(app *v1alpha1.DemoApp) bool {
		for _, part := range parts {
			if !strings.Contains(apps.Condition(app, v1alpha1.ConditionValidated).Message, part) {
				return false
			}
		}
		return apps.IsStalled(app, v1alpha1.ReasonValidationFailed) &&
			apps.Has(app, v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonValidationFailed) &&
			apps.Condition(app, apimeta.ConditionReady).ObservedGeneration == app.Generation
	}
}

func TestNodePortBelongsToOlderDemoApp(t *testing.T) {
	t.Parallel()
	const port, another = 31901, 31902
	ns := newNamespace(t)
	// The name decides between two DemoApps of the same second.
	ns.Create(atNodePort("a-holder", port))
	ns.AwaitReady("a-holder")
	ns.Create(atNodePort("b-next", port))
	app := ns.Await("b-next", "invalid", isInvalid("31901", `"a-holder"`))
	if !apps.Has(app, releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, v1alpha1.ReasonValidationFailed) {
		t.Errorf("Deployed is %+v", apps.Condition(app, releasev1alpha1.ConditionDeployed))
	}
	assertNothingInstalled(t, ns, "b-next")
	ns.AwaitEvent("b-next", v1alpha1.ReasonValidationFailed, "31901", "a-holder")
	ns.Create(atNodePort("c-last", port))
	ns.Await("c-last", "invalid", isInvalid("31901", `"a-holder"`))

	// The holder takes another port. The next DemoApp gets the port, and the status of the last one
	// names the new holder.
	ns.Change("a-holder", func(spec *v1alpha1.DemoAppSpec) { spec.Service.NodePort = another })
	ns.AwaitReady("b-next")
	if got := ns.Objects("b-next").Service.Spec.Ports[0].NodePort; got != port {
		t.Errorf("nodePort is %d", got)
	}
	ns.Await("c-last", "invalid because of another DemoApp", isInvalid("31901", `"b-next"`))

	// A running DemoApp that asks for a taken port is reported as invalid, and keeps running.
	ns.Change("b-next", func(spec *v1alpha1.DemoAppSpec) { spec.Service.NodePort = another })
	app = ns.Await("b-next", "invalid", isInvalid("31902", `"a-holder"`))
	if apps.Revision(app) != 1 || !apps.Has(app, releasev1alpha1.ConditionDeployed, metav1.ConditionTrue, "") {
		t.Errorf("revision %d, Deployed %+v", apps.Revision(app), apps.Condition(app, releasev1alpha1.ConditionDeployed))
	}
	writeOver(t, ns, "b-next")
	ns.AwaitEvent("b-next", "DriftCorrected", "ConfigMap b-next (changed)")

	// The deletion of an invalid DemoApp works, and the deletion of the holder releases the port
	// for the remaining DemoApps.
	ns.Delete("b-next")
	ns.AwaitGone("b-next")
	ns.AwaitReady("c-last")
	ns.Change("c-last", func(spec *v1alpha1.DemoAppSpec) { spec.Service.NodePort = another })
	ns.Await("c-last", "invalid", isInvalid("31902", `"a-holder"`))
	ns.Delete("a-holder")
	ns.AwaitGone("a-holder")
	app = ns.AwaitReady("c-last")
	if !apps.Has(app, v1alpha1.ConditionValidated, metav1.ConditionTrue, v1alpha1.ReasonValidationSucceeded) {
		t.Errorf("Validated is %+v", apps.Condition(app, v1alpha1.ConditionValidated))
	}
	if got := ns.Objects("c-last").Service.Spec.Ports[0].NodePort; got != another {
		t.Errorf("nodePort is %d", got)
	}
	ns.AwaitQuiet(quiet)
	ns.Delete("c-last") // Node ports are cluster-wide.
	ns.AwaitGone("c-last")
}

// TestSwappedNodePorts: two DemoApps that wait for the port of each other say so, and swap by way
// of a third port.
func TestSwappedNodePorts(t *testing.T) {
	t.Parallel()
	const first, second, between = 31904, 31905, 31906
	ns := newNamespace(t)
	ns.Create(atNodePort("a", first))
	ns.Create(atNodePort("b", second))
	ns.AwaitReady("a")
	ns.AwaitReady("b")
	ask := func(name string, port int32) {
		ns.Change(name, func(spec *v1alpha1.DemoAppSpec) { spec.Service.NodePort = port })
	}
	ask("a", second)
	ask("b", first)
	waitsFor := func(text string) func(*v1alpha1.DemoApp) bool {
		return func(app *v1alpha1.DemoApp) bool {
			return strings.Contains(apps.Condition(app, apimeta.ConditionReady).Message, text) && !apps.IsAbsent(app, apimeta.ConditionReconciling)
		}
	}
	ns.Await("a", "waits for the other", waitsFor(`31905 is still in use by DemoApp "b"`))
	ns.Await("b", "waits for the other", waitsFor(`31904 is still in use by DemoApp "a"`))
	ask("b", between)
	hasPort := func(port int32) func(*v1alpha1.DemoApp) bool {
		return func(app *v1alpha1.DemoApp) bool { return apps.IsReady(app) && app.Status.NodePort == port }
	}
	ns.Await("a", "at the other's port", hasPort(second))
	ask("b", first)
	ns.Await("b", "at the other's port", hasPort(first))

	// A Service without a requested node port keeps its port until it is deleted.
	ask("b", 0)
	ns.Await("b", "asks for none", func(app *v1alpha1.DemoApp) bool {
		return hasPort(first)(app) && app.Status.ObservedGeneration == app.Generation && app.Spec.Service.NodePort == 0
	})
	ask("a", first)
	ns.Await("a", "waits", waitsFor(`31904 is still in use by DemoApp "b"`))
	if err := shared.Client.CoreV1().Services(ns.Name).Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ns.Await("a", "at the released port", hasPort(first))
	for _, name := range []string{"a", "b"} {
		ns.Delete(name) // Node ports are cluster-wide.
		ns.AwaitGone(name)
	}
}
