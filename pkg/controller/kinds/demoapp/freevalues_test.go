// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/redact"
	"github.com/example/demoapp-controller/test/expect"
)

var (
	configMapValues = releasev1alpha1.ValuesReference{Kind: releasev1alpha1.ValuesFromConfigMap, Name: "base"}
	secretValues    = releasev1alpha1.ValuesReference{Kind: releasev1alpha1.ValuesFromSecret, Name: "private", Key: "more"}
)

func valuesFrom(references ...releasev1alpha1.ValuesReference) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) { app.Spec.ValuesFrom = references }
}

func specValues(raw string) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) { app.Spec.Values = &runtime.RawExtension{Raw: []byte(raw)} }
}

// configMap creates or replaces the ConfigMap "base".
func (w *world) configMap(data map[string]string) {
	w.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "base"}, Data: data}
	if _, err := w.kube.CoreV1().Namespaces().Create(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	configMaps := w.kube.CoreV1().ConfigMaps(namespace)
	_, err := configMaps.Create(w.t.Context(), object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = configMaps.Update(w.t.Context(), object, metav1.UpdateOptions{})
	}
	expect.NoError(w.t, err)
}

// private creates or replaces the Secret "private".
func (w *world) private(text string) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "private"}, Data: map[string][]byte{"more": []byte(text)}}
	secrets := w.kube.CoreV1().Secrets(namespace)
	_, err := secrets.Create(w.t.Context(), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(w.t.Context(), secret, metav1.UpdateOptions{})
	}
	expect.NoError(w.t, err)
}

func TestValuesAreMergedInOrder(t *testing.T) {
	w := newWorld(t)
	w.configMap(map[string]string{"values.yaml": "a: base\nb: base\nc: base\nd: base\nservice: {extra: base, port: 1}"})
	w.private("b: private\nc: private")
	w.create(newApp("a", valuesFrom(configMapValues, secretValues), specValues(`{"c": "own", "message": "not this"}`)))
	w.passes("a", controller.SpecChange)
	got := w.engine.Desired.Values
	for key, want := range map[string]any{
		"a": "base", "b": "private", "c": "own", "d": "base", "message": "hello", "apiKey": plainKey,
		"service": map[string]any{"type": "ClusterIP", "port": int64(80), "nodePort": int64(0), "extra": "base"},
	} {
		expect.Equal(t, key, want, got[key])
	}
	expect.Equal(t, "requests", []string{
		"patch demoapps a", "get configmaps base", "get secrets private", "Install a NotInstalled", "apply demoapps/status a",
	}, w.calls.Take())
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "requests when nothing changed", []string(nil), w.calls.Take())

	w.change("a", func(app *v1alpha1.DemoApp) { app.Spec.ValuesFrom, app.Spec.Values = nil, nil })
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "cached bytes without users", 0, w.sources.Kept())
	expect.Equal(t, "a", nil, w.engine.Desired.Values["a"])
}

func TestSourcesAreWatchedOnDemand(t *testing.T) {
	w := deployed(t)
	expect.Equal(t, "Need calls for Secrets without apiKeyFrom", 0, w.secrets.needed)
	w.create(newApp("b", keyFrom("keys", "k"), specValues(`{"a": 1}`)))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "Need calls without valuesFrom", 0, w.configMaps.needed)
	w.create(newApp("c", valuesFrom(configMapValues)))
	w.configMaps.err = controller.ErrNotSynced
	_, err := w.pass("c", controller.SpecChange)
	if !errors.Is(err, controller.ErrNotSynced) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "conditions while the watch syncs", releasetest.Conditions(), w.conditions("c"))
}

func TestInstallWaitsForValues(t *testing.T) {
	tests := []struct {
		name     string
		from     releasev1alpha1.ValuesReference
		prepare  func(*world)
		stalled  bool
		message  string
		optional string
	}{
		{
			"no ConfigMap", configMapValues, func(*world) {}, false,
			`valuesFrom[0]: ConfigMap "base", which is to hold key "values.yaml", does not exist in this namespace`, "True Healthy",
		},
		{
			"no key", configMapValues, func(w *world) { w.configMap(map[string]string{"other": ""}) }, false,
			`valuesFrom[0]: ConfigMap "base" has no key "values.yaml"`, "True Healthy",
		},
		{
			"not an object", configMapValues, func(w *world) { w.configMap(map[string]string{"values.yaml": "[1]"}) }, true,
			`valuesFrom[0]: Key "values.yaml" of ConfigMap "base" is not a YAML or JSON object: it is not an object (key: value)`, "False ValuesInvalid",
		},
		{
			"Secret with invalid YAML", secretValues, func(w *world) { w.private("{hidden-secret: [") }, true,
			`valuesFrom[0]: Key "more" of Secret "private" is not a YAML or JSON object`, "False ValuesInvalid",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.prepare(w)
			w.create(newApp("a", valuesFrom(test.from)))
			w.passes("a", controller.SpecChange)
			reason, other := releasev1alpha1.ReasonValuesNotFound, "Reconciling"
			if test.stalled {
				reason, other = releasev1alpha1.ReasonValuesInvalid, "Stalled"
			}
			expect.Equal(t, "conditions", releasetest.Conditions("Ready", "False "+reason, other, "True "+reason, "Deployed", "False "+reason), w.conditions("a"))
			expect.Equal(t, "message", test.message, w.message("a", apimeta.ConditionReady))
			expect.Equal(t, "events", []string{"a Warning " + reason + " Reconcile " + test.message}, w.recorder.Take())

			from := test.from
			from.Optional = true
			w.create(newApp("b", valuesFrom(from)))
			w.passes("b", controller.SpecChange)
			expect.Equal(t, "Ready with an optional reference", test.optional, w.conditions("b")["Ready"])

			w.configMap(map[string]string{"values.yaml": "x: 1"})
			w.private("x: 1")
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "conditions afterwards", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
			expect.Equal(t, "x", any(int64(1)), w.engine.Desired.Values["x"])
		})
	}
}

func TestValuesFromSecretsStaySecret(t *testing.T) {
	w := newWorld(t)
	w.private("extraEnv: [{name: PASSWORD, value: hidden-secret}]")
	w.create(newApp("a", valuesFrom(secretValues)))
	w.engine.Failures = []error{&helm.RenderError{Chart: "demo-app", Err: fmt.Errorf("at '/extraEnv/0': got \"hidden-secret\": %w", errPlain)}}
	_, err := w.pass("a", controller.SpecChange)
	for what, text := range map[string]string{
		"error": err.Error(), "status": asJSON(t, w.app("a").Status), "events": strings.Join(w.recorder.All(), "\n"),
	} {
		if strings.Contains(text, "hidden-secret") {
			t.Errorf("%s shows the secret: %s", what, text)
		}
	}
	expect.Contains(t, "message", w.message("a", apimeta.ConditionStalled), "at '/extraEnv/0': got \"REDACTED\"")

	w.engine.UninstallErr = fmt.Errorf("refused hidden-secret: %w", errPlain)
	w.delete("a")
	_, err = w.pass("a", controller.SpecChange)
	expect.Contains(t, "error of the deletion", err.Error(), "refused REDACTED")
	expect.Contains(t, "message of the deletion", w.message("a", apimeta.ConditionReady), "refused REDACTED")
}

// TestRefusedWritesDoNotShowSecrets: an admission webhook may quote the content of an object.
func TestRefusedWritesDoNotShowSecrets(t *testing.T) {
	quoted := fmt.Errorf("admission webhook: hidden-secret and %s are not allowed", "key-from-secret")
	tests := map[string]func(w *world){
		"the status": func(w *world) { w.statusErr = quoted },
		"the finalizer": func(w *world) {
			w.delete("a")
			w.patchErr = quoted
		},
	}
	for name, refuse := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.private("extraEnv: [{name: PASSWORD, value: hidden-secret}]")
			w.secret(map[string]string{"k": "key-from-secret"})
			w.create(newApp("a", keyFrom("keys", "k"), valuesFrom(secretValues)))
			w.passes("a", controller.SpecChange)
			w.change("a", says("other"))
			refuse(w)
			w.sync()

			_, err := w.controller.Reconcile(t.Context(), keyOf("a"), controller.SpecChange)

			for what, text := range map[string]string{
				"error": fmt.Sprint(err), "status": asJSON(t, w.app("a").Status), "events": strings.Join(w.recorder.All(), "\n"),
			} {
				if strings.Contains(text, "hidden-secret") || strings.Contains(text, "key-from-secret") {
					t.Errorf("%s shows a secret: %s", what, text)
				}
			}
			expect.Contains(t, "error", fmt.Sprint(err), "admission webhook: REDACTED and REDACTED are not allowed")
		})
	}
}

// TestKeysFromSecretsStaySecret: keys that only the Secret has are redacted, and those
// that the chart itself knows are not.
func TestKeysFromSecretsStaySecret(t *testing.T) {
	w := newWorld(t)
	w.private("extraEnv: [{name: 1}]\npodLabels: {hidden-secret: 5}")
	w.create(newApp("a", valuesFrom(secretValues), policy(releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftWarn})))
	w.engine.Failures = []error{&helm.RenderError{
		Chart: "demo-app", Err: errors.New("values.extraEnv[0].name: got number, want string; values.podLabels.hidden-secret: got number, want string"),
	}}
	_, err := w.pass("a", controller.SpecChange)
	const want = "values.extraEnv[0].name: got number, want string; values.REDACTED.REDACTED: got number, want string"
	expect.Contains(t, "error", err.Error(), want)
	expect.Contains(t, "message", w.message("a", apimeta.ConditionStalled), want)

	w.change("a", says("other"))
	w.passes("a", controller.SpecChange)
	w.engine.Mutate(keyOf("a"), releasetest.ChangeField("Deployment", "/metadata/labels/hidden-secret"))
	w.passes("a", controller.Drift)
	expect.Equal(t, "drift", "Deployment a (changed): /metadata/labels/REDACTED", w.message("a", releasev1alpha1.ConditionDrifted))
	if events := strings.Join(w.recorder.All(), "\n"); strings.Contains(events, "hidden-secret") {
		t.Errorf("events show the secret: %s", events)
	}
}

// TestLongErrorsAreTruncated: only a few KiB of a huge error reach the log, the status
// and the events.
func TestLongErrorsAreTruncated(t *testing.T) {
	w := newWorld(t)
	w.private("extraEnv: [{name: A, value: hidden-secret}]")
	w.create(newApp("a", valuesFrom(secretValues)))
	long := errors.New(strings.Repeat("got hidden-secret\n", 1<<18))
	w.engine.Failures = []error{&helm.RenderError{Chart: "demo-app", Err: long}}
	_, err := w.pass("a", controller.SpecChange)
	for what, text := range map[string]string{
		"error": err.Error(), "Stalled": w.message("a", apimeta.ConditionStalled), "events": strings.Join(w.recorder.All(), "\n"),
	} {
		if len(text) > 2*redact.MaxTextBytes || strings.Contains(text, "hidd") || strings.Contains(text, "\nREDACTED") {
			t.Errorf("%s has %d bytes: %.200s", what, len(text), text)
		}
	}
	if !errors.Is(err, long) || !controller.IsTerminal(err) {
		t.Errorf("the error does not wrap the original error: %T", err)
	}
}

// TestErrorsAreWithheldWhileSecretIsInvalid: the values of an invalid Secret are unknown
// and cannot be redacted.
func TestErrorsAreWithheldWhileSecretIsInvalid(t *testing.T) {
	w := newWorld(t)
	w.private("extraEnv: [{name: A, value: hidden-secret}]")
	w.create(newApp("a", valuesFrom(secretValues)))
	w.passes("a", controller.SpecChange)
	w.private("extraEnv: &x [{name: A, value: hidden-secret}]")
	w.engine.Mutate(keyOf("a"), releasetest.Remove("Service"))
	w.engine.Failures = []error{fmt.Errorf("refused hidden-secret: %w", errPlain)}
	_, err := w.pass("a", controller.Drift)
	expect.Contains(t, "error", err.Error(), "the detail is left out")
	if status := asJSON(t, w.app("a").Status); strings.Contains(status, "hidden-secret") {
		t.Errorf("the status shows the secret: %s", status)
	}
}

func TestValuesWithoutPermissionToWatchConfigMaps(t *testing.T) {
	const message = "valuesFrom[0]: ConfigMaps cannot be watched: configmaps is forbidden: no rule allows it"
	w := deployed(t)
	w.configMaps.err = errForbidden("configmaps")
	w.create(newApp("b", valuesFrom(configMapValues)))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "conditions of a new app", releasetest.Conditions("Deployed", "False ObserveFailed", "Ready", "False ObserveFailed",
		"Reconciling", "True ObserveFailed"), w.conditions("b"))
	expect.Equal(t, "message", message, w.message("b", apimeta.ConditionReady))

	w.change("a", valuesFrom(configMapValues))
	w.engine.Mutate(keyOf("a"), releasetest.Remove("Service"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "drift is repaired", true, slices.Contains(w.calls.Take(), "Repair a Drift"))
	expect.Equal(t, "Ready of a deployed app", "False ObserveFailed", w.is("a", apimeta.ConditionReady))
	expect.Equal(t, "Reconciling", "True ObserveFailed", w.is("a", apimeta.ConditionReconciling))
}
