// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/test/expect"
)

func TestInstallWaitsForKey(t *testing.T) {
	tests := []struct {
		name    string
		data    map[string]string
		reason  string
		message string
		calls   []string
	}{
		{
			"no Secret", nil, releasev1alpha1.ReasonSecretNotFound,
			`Secret "keys", which is to hold key "k", does not exist in this namespace`,
			[]string{"patch demoapps a", "apply demoapps/status a"},
		},
		{
			"no key",
			map[string]string{"other": plainKey},
			releasev1alpha1.ReasonKeyNotFound, `Secret "keys" has no key "k"`,
			[]string{"patch demoapps a", "get secrets keys", "apply demoapps/status a"},
		},
		{
			"too short",
			map[string]string{"k": "secret"},
			releasev1alpha1.ReasonKeyInvalid,
			`Key "k" of Secret "keys" has 6 characters; it must have 8 to 1024`,
			[]string{"patch demoapps a", "get secrets keys", "apply demoapps/status a"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			if test.data != nil {
				w.secret(test.data)
			}
			w.create(newApp("a", keyFrom("keys", "k")))
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "requests", test.calls, w.calls.Take())
			expect.Equal(t, "conditions", releasetest.Conditions("Ready", "False "+test.reason, "Reconciling", "True "+test.reason,
				"Deployed", "False "+test.reason), w.conditions("a"))
			expect.Equal(t, "message", test.message, w.message("a", apimeta.ConditionReady))
			expect.Equal(t, "events", []string{"a Warning " + test.reason + " Reconcile " + test.message}, w.recorder.Take())
			w.passes("a", controller.PeriodicResync)
			expect.Equal(t, "requests while it waits", []string(nil), w.calls.Take())

			w.secret(map[string]string{"k": plainKey})
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "requests", []string{"get secrets keys", "Install a NotInstalled", "apply demoapps/status a"}, w.calls.Take())
			expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
			expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonSpecGenerationChanged, w.app("a").Status.LastUpgradeReason)
			expect.Equal(t, "key", any(plainKey), w.engine.Desired.Values["apiKey"])
		})
	}
}

func TestChangedKeyUpgrades(t *testing.T) {
	w := newWorld(t)
	w.secret(map[string]string{"k": "first-secret"})
	w.create(newApp("a", keyFrom("keys", "k")))
	w.create(newApp("b", keyFrom("keys", "k")))
	w.passes("a", controller.SpecChange)
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "requests of the second app", []string{"patch demoapps b", "Install b NotInstalled", "apply demoapps/status b"}, w.calls.Take())

	w.secret(map[string]string{"k": plainKey})
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests for a new key", []string{"get secrets keys", "Upgrade a InputsChanged", "apply demoapps/status a"}, w.calls.Take())
	expect.Equal(t, "key", any(plainKey), w.engine.Desired.Values["apiKey"])
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonSpecGenerationChanged, w.app("a").Status.LastUpgradeReason)
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests when nothing changed", []string(nil), w.calls.Take())

	w.secret(map[string]string{"k": plainKey, "other": "x"})
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests for another key of the Secret", []string{"get secrets keys"}, w.calls.Take())

	w.secret(map[string]string{})
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests without the key", []string{"get secrets keys", "apply demoapps/status a"}, w.calls.Take())
	expect.Equal(t, "conditions without the key", releasetest.Conditions("Ready", "False KeyNotFound", "Reconciling", "True KeyNotFound",
		"Deployed", "True UpgradeSucceeded"), w.conditions("a"))
	w.engine.Mutate(keyOf("a"), releasetest.Remove("Secret"))
	w.passes("a", controller.Drift)
	expect.Equal(t, "requests for drift",
		[]string{"Repair a Drift", "apply demoapps/status a", "apply demoapps/status a"}, w.calls.Take())

	w.secret(map[string]string{"k": plainKey})
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests after the key is back", []string{"get secrets keys", "apply demoapps/status a"}, w.calls.Take())
	expect.Equal(t, "conditions after the key is back", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
}

func TestSecretDeletedBeforeRead(t *testing.T) {
	w := newWorld(t)
	w.secret(map[string]string{"k": plainKey})
	w.create(newApp("a", keyFrom("keys", "k")))
	w.secretErr = apierrors.NewNotFound(corev1.Resource("secrets"), "keys")
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Ready", "False SecretNotFound", w.conditions("a")["Ready"])
}

func TestUnreadableSecretIsRetried(t *testing.T) {
	w := newWorld(t)
	w.secret(map[string]string{"k": plainKey})
	w.create(newApp("a", keyFrom("keys", "k")))
	w.secretErr = errPlain
	_, err := w.pass("a", controller.SpecChange)
	if !errors.Is(err, errPlain) || controller.IsTerminal(err) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "False ObserveFailed", "Reconciling", "True ObserveFailed"), w.conditions("a"))
	expect.Contains(t, "message", w.message("a", apimeta.ConditionReady), "get Secret ns/keys")
	w.secretErr = nil
	w.passes("a", controller.SpecChange|controller.Retry)
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
}
