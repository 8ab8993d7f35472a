// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// createValues creates a ConfigMap with values.
func createValues(t *testing.T, ns *apps.Namespace, name, text string) {
	t.Helper()
	_, err := shared.Client.CoreV1().ConfigMaps(ns.Name).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{releasev1alpha1.DefaultValuesKey: text},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// withValues returns a DemoApp with values from the ConfigMap base, from the key theKey of the
// Secret my-secret, and from its spec.
func withValues(name, own string) *v1alpha1.DemoApp {
	app := apps.Named(name)
	app.Spec.ValuesFrom = []releasev1alpha1.ValuesReference{
		{Kind: releasev1alpha1.ValuesFromConfigMap, Name: "base"},
		{Kind: releasev1alpha1.ValuesFromSecret, Name: "my-secret", Key: "theKey"},
	}
	if own != "" {
		app.Spec.Values = &runtime.RawExtension{Raw: []byte(own)}
	}
	return app
}

func TestValuesFromSources(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(withValues("web", `{"podAnnotations": {"c": "own"}, "message": "not this one"}`))
	app := ns.Await("web", "waiting", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, apimeta.ConditionReady, metav1.ConditionFalse, releasev1alpha1.ReasonValuesNotFound)
	})
	for _, part := range []string{`ConfigMap "base"`, `Secret "my-secret"`} {
		if message := apps.Condition(app, apimeta.ConditionReady).Message; !strings.Contains(message, part) {
			t.Errorf("%q does not say %q", message, part)
		}
	}
	assertNothingInstalled(t, ns, "web")

	// The release follows each source as soon as the source exists.
	createValues(t, ns, "base", "podAnnotations: {a: base, b: base, c: base}\nreplicaCount: 7")
	createSecret(t, ns, map[string]string{"theKey": "podAnnotations: {b: private, c: private}"})
	ns.AwaitReady("web")
	objects := ns.Objects("web")
	for key, want := range map[string]string{"a": "base", "b": "private", "c": "own"} {
		if got := objects.Deployment.Spec.Template.Annotations[key]; got != want {
			t.Errorf("annotation %s is %q, want %q", key, got, want)
		}
	}
	if *objects.Deployment.Spec.Replicas != 1 || !strings.Contains(objects.ConfigMap.Data["index.html"], "Hello from the hybrid operator") {
		t.Errorf("values override the fields of the spec: %+v, %q", objects.Deployment.Spec.Replicas, objects.ConfigMap.Data)
	}
	ns.AwaitQuiet(quiet)

	// Changes outside the values only make the operator read the object.
	begin := time.Now()
	patchConfigMap(t, ns, "base", `{"metadata": {"labels": {"team": "x"}}, "data": {"other": "x"}}`)
	ns.AwaitQuiet(quiet)
	for _, request := range ns.Requests(begin) {
		if request.Verb != "get" || request.Resource != "configmaps" || request.Name != "base" {
			t.Errorf("the operator did more than read the ConfigMap:\n%s", apps.Describe(ns.Requests(begin)))
			break
		}
	}
	patchConfigMap(t, ns, "base", `{"data": {"values.yaml": "podAnnotations: {a: changed}"}}`)
	app = ns.Await("web", "upgraded", func(app *v1alpha1.DemoApp) bool { return apps.IsReady(app) && apps.Revision(app) == 2 })
	if got := ns.Objects("web").Deployment.Spec.Template.Annotations["a"]; got != "changed" {
		t.Errorf("annotation a is %q", got)
	}
	if app.Status.LastUpgradeReason != releasev1alpha1.UpgradeReasonSpecGenerationChanged {
		t.Errorf("lastUpgradeReason is %s", app.Status.LastUpgradeReason)
	}
}

func patchConfigMap(t *testing.T, ns *apps.Namespace, name, change string) {
	t.Helper()
	_, err := shared.Client.CoreV1().ConfigMaps(ns.Name).Patch(t.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
