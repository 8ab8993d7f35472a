// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ecommerceplatform_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/test/expect"
)

const shopHost = "shop.example.com"

func TestTakenHost(t *testing.T) {
	tests := map[string]struct{ namespace, message string }{
		"in the same namespace": {"ns", `spec.ingress.host: shop.example.com belongs to EcommercePlatform "shop": choose another host`},
		"in another namespace": {"other", "spec.ingress.host: shop.example.com belongs to an object of kind EcommercePlatform in another " +
			"namespace: choose another host"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inRunningWorld(t, func(w *world) {
				w.create("second", withHost(shopHost), inNamespace(test.namespace))

				got := w.condition(test.namespace, "second", platformv1.ConditionIngressReady)
				expect.Equal(w.t, "reason", platformv1.ReasonHostTaken, got.Reason)
				expect.Equal(w.t, "message", test.message, got.Message)
				expect.Equal(w.t, "Stalled", metav1.ConditionTrue, w.condition(test.namespace, "second", "Stalled").Status)
				expect.Equal(w.t, "phase", childv1alpha1.PhaseFailed, w.platform(test.namespace, "second").Status.Phase)
				expect.Equal(w.t, "host of the first", shopHost, w.platform("ns", "shop").Status.Host)
			}, withHost(shopHost))
		})
	}
}

// TestReservedHost: a platform of another namespace was first, and neither gets nor blocks the
// host.
func TestReservedHost(t *testing.T) {
	for _, host := range []string{"reserved.example.com", "www.reserved.example.com"} {
		inWorld(t, func(w *world) {
			w.create("first", inNamespace("other"), withHost(host))
			w.Wait(time.Hour)

			w.create("shop", withHost(host))
			w.reportComponents()

			got := w.condition("other", "first", platformv1.ConditionIngressReady)
			expect.Equal(t, "condition of the first", [2]string{
				platformv1.ReasonHostTaken, "spec.ingress.host: " + host + " is reserved for another namespace: choose another host",
			}, [2]string{got.Reason, got.Message})
			expect.Equal(t, "host of the second", host, w.platform("ns", "shop").Status.Host)
		})
	}
}

// TestOlderPlatformCannotTakeAHost: the platform that serves a host keeps it, because the older one
// may be of another tenant.
func TestOlderPlatformCannotTakeAHost(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create("older", inNamespace("other"))
		w.Wait(time.Hour)
		w.create("shop", withHost(shopHost))
		w.reportComponents()
		older := w.platform("other", "older")
		withHost(shopHost)(older)

		controllertest.Update(w.World, w.client.PlatformV1().EcommercePlatforms("other").Update, older)

		expect.Equal(t, "reason of the older", platformv1.ReasonHostTaken, w.condition("other", "older", platformv1.ConditionIngressReady).Reason)
		expect.Equal(t, "host of the younger", shopHost, w.platform("ns", "shop").Status.Host)
	})
}

func TestHostOfADeletedPlatform(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		w.create("second", withHost(shopHost))

		controllertest.Delete(w.World, w.client.PlatformV1().EcommercePlatforms("ns").Delete, "shop")

		expect.Equal(t, "reason", childv1alpha1.ReasonWaitingForComponent, w.condition("ns", "second", platformv1.ConditionIngressReady).Reason)
		expect.Equal(t, "Stalled", metav1.Condition{}, w.condition("ns", "second", "Stalled"))
	}, withHost(shopHost))
}

// TestHostIsKeptUntilTheNextIsFree: a platform that changes to a host that is taken serves the one
// before.
func TestHostIsKeptUntilTheNextIsFree(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create("second", withHost("second.example.com"))
		w.Wait(time.Hour)
		w.create("shop", withHost(shopHost))
		w.reportComponents()
		expect.Equal(t, "host before", shopHost, w.platform("ns", "shop").Status.Host)

		w.change(withHost("second.example.com"))

		ingresses, err := w.kube.NetworkingV1().Ingresses("ns").List(t.Context(), metav1.ListOptions{})
		expect.NoError(t, err)
		expect.Equal(t, "Ingresses", 1, len(ingresses.Items))
		expect.Equal(t, "host of the Ingress", shopHost, ingresses.Items[0].Spec.Rules[0].Host)
		expect.Equal(t, "host", shopHost, w.platform("ns", "shop").Status.Host)
		expect.Equal(t, "endpoint", "http://"+shopHost, w.platform("ns", "shop").Status.Endpoints.Frontend)
		expect.Equal(t, "reason", platformv1.ReasonHostTaken, w.condition("ns", "shop", platformv1.ConditionIngressReady).Reason)

		controllertest.Delete(w.World, w.client.PlatformV1().EcommercePlatforms("ns").Delete, "second")

		expect.Equal(t, "host when the other is free", "second.example.com", w.platform("ns", "shop").Status.Host)
	})
}
