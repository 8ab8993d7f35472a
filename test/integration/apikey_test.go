// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// fromSecret returns a DemoApp with a key from the Secret my-secret.
func fromSecret(name string) *v1alpha1.DemoApp {
	app := apps.Named(name)
	app.Spec.APIKey = ""
	app.Spec.APIKeyFrom = &releasev1alpha1.SecretKeyReference{Name: "my-secret", Key: "theKey"}
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
