// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// fromSecret returns a DemoApp with a key from the Secret my-secret.
func fromSecret(name string) *v1alpha1.DemoApp {
	app := apps.Named(name)
	app.Spec.APIKey = ""
	app.Spec.APIKeyFrom = &v1alpha1.SecretKeyReference{Name: "my-secret", Key: "theKey"}
	return app
}

func createSecret(t *testing.T, ns *apps.Namespace, data map[string]string) {
	t.Helper()
	_, err := shared.Client.CoreV1().Secrets(ns.Name).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "my-secret"}, StringData: data,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func patchSecret(t *testing.T, ns *apps.Namespace, change string) {
	t.Helper()
	_, err := shared.Client.CoreV1().Secrets(ns.Name).Patch(t.Context(), "my-secret", types.MergePatchType, []byte(change), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestUnusableKey(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		secret map[string]string
		reason string
		// says is what the condition and the event name beside the Secret and its key.
		says string
	}{
		{name: "no Secret", reason: v1alpha1.ReasonSecretNotFound, says: "does not exist"},
		{name: "no key", secret: map[string]string{"other": "12345678"}, reason: v1alpha1.ReasonKeyNotFound, says: "has no key"},
		{name: "too short", secret: map[string]string{"theKey": "seven77"}, reason: v1alpha1.ReasonKeyInvalid, says: "7 characters"},
		{name: "no text", secret: map[string]string{"theKey": "\xff\xfe\xfd\xfc\xff\xfe\xfd\xfc"}, reason: v1alpha1.ReasonKeyInvalid, says: "UTF-8"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			if test.secret != nil {
				data := map[string][]byte{}
				for key, value := range test.secret {
					data[key] = []byte(value)
				}
				_, err := shared.Client.CoreV1().Secrets(ns.Name).Create(t.Context(), &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Name: "my-secret"}, Data: data,
				}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
			}
			ns.Create(fromSecret("web"))
			app := ns.Await("web", test.reason, func(app *v1alpha1.DemoApp) bool {
				return apps.Has(app, apimeta.ConditionReady, metav1.ConditionFalse, test.reason) &&
					apps.Has(app, releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, test.reason)
			})
			message := apps.Condition(app, apimeta.ConditionReady).Message
			for _, part := range []string{"my-secret", "theKey", test.says} {
				if !strings.Contains(message, part) {
					t.Errorf("%q does not say %q", message, part)
				}
			}
			ns.AwaitEvent("web", test.reason, "my-secret", "theKey", test.says)
			assertNothingInstalled(t, ns, "web")

			// The DemoApp is deployed as soon as the key is usable.
			if test.secret == nil {
				createSecret(t, ns, map[string]string{"theKey": "good-enough"})
			} else {
				patchSecret(t, ns, `{"stringData": {"theKey": "good-enough"}}`)
			}
			app = ns.AwaitReady("web")
			if got := string(ns.Objects("web").Secret.Data["apiKey"]); got != "good-enough" {
				t.Errorf("apiKey is %q", got)
			}
			if app.Status.LastUpgradeReason != releasev1alpha1.UpgradeReasonSpecGenerationChanged {
				t.Errorf("lastUpgradeReason is %s", app.Status.LastUpgradeReason)
			}
			assertRecords(t, ns, "web v1 deployed")
		})
	}
}

func TestRotatedKeyIsRolledOut(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	createSecret(t, ns, map[string]string{"theKey": "the-first-key"})
	ns.Create(fromSecret("one"))
	ns.Create(fromSecret("two"))
	before := map[string]apps.Objects{}
	for _, name := range []string{"one", "two"} {
		ns.AwaitReady(name)
		before[name] = ns.Objects(name)
	}
	patchSecret(t, ns, `{"stringData": {"theKey": "the-second-key"}}`)
	for name, was := range before {
		app := ns.Await(name, "ready with the new key", func(app *v1alpha1.DemoApp) bool {
			return apps.IsReady(app) && apps.Revision(app) == 2
		})
		is := ns.Objects(name)
		if got := string(is.Secret.Data["apiKey"]); got != "the-second-key" {
			t.Errorf("%s: apiKey is %q", name, got)
		}
		if sameTemplate(was, is) {
			t.Errorf("%s: the pods were not rolled", name)
		}
		if got := apps.UpgradeReason(app); got != releasev1alpha1.UpgradeReasonSpecGenerationChanged {
			t.Errorf("%s: reason of the upgrade is %s", name, got)
		}
	}
}

func TestFromPlainKeyToSecret(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	createSecret(t, ns, map[string]string{"theKey": "the-first-key"})
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { *spec = fromSecret("web").Spec })
	if app := ns.AwaitReady("web"); apps.Revision(app) != 2 {
		t.Errorf("revision %d", apps.Revision(app))
	}
	if got := string(ns.Objects("web").Secret.Data["apiKey"]); got != "the-first-key" {
		t.Errorf("apiKey is %q", got)
	}
}
