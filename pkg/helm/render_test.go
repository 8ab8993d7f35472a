// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"encoding/base64"
	"flag"
	"html/template"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

var update = flag.Bool("update", false, "write the golden files anew")

// rendered installs a release, and returns its stored manifest and its objects.
func rendered(t *testing.T, desired Release) (manifest string, objects map[string]*unstructured.Unstructured, err error) {
	t.Helper()
	bubble(t, func(_ *testing.T, f *fixture) {
		if _, err = f.reconcile(desired); err != nil {
			return
		}
		rls := f.record(desired)
		manifest, objects = rls.Manifest, map[string]*unstructured.Unstructured{}
		for _, name := range f.Names() {
			kind, key, _ := strings.Cut(name, " ")
			objects[kind] = f.Object(kind, key)
		}
	})
	return manifest, objects, err
}

func mustRender(t *testing.T, values map[string]any) map[string]*unstructured.Unstructured {
	t.Helper()
	_, objects, err := rendered(t, demo(t, values))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// typed converts an object, and fails on fields that its type does not have.
func typed[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	converted := new(T)
	if object == nil {
		t.Fatalf("there is no %T", converted)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, converted, true); err != nil {
		t.Fatal(err)
	}
	return converted
}

// TestDemoAppGolden pins the manifest of the default values, as it is stored in
// the release record. "go test ./pkg/helm -run Golden -update" writes it anew.
func TestDemoAppGolden(t *testing.T) {
	desired := demo(t, nil)
	owner := demoOwner()
	desired.Owner = &owner
	got, _, err := rendered(t, desired)
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "demo-app.yaml")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("manifest (-golden +got):\n%s", diff)
	}
}

func TestDemoAppValues(t *testing.T) {
	objects := mustRender(t, map[string]any{
		"replicaCount": 0, "image": "registry.example.com/web:2", "apiKey": "päss \"wörd\"",
		"service": map[string]any{"type": "NodePort", "port": 8443},
	})
	deployment := typed[appsv1.Deployment](t, objects["Deployment"])
	if got := ptr.Deref(deployment.Spec.Replicas, -1); got != 0 {
		t.Errorf("replicas = %d, want 0", got)
	}
	if got := deployment.Spec.Template.Spec.Containers[0].Image; got != "registry.example.com/web:2" {
		t.Errorf("image = %q", got)
	}
	service := typed[corev1.Service](t, objects["Service"])
	if service.Spec.Type != corev1.ServiceTypeNodePort || service.Spec.Ports[0].Port != 8443 {
		t.Errorf("service is a %s on port %d, want a NodePort on 8443", service.Spec.Type, service.Spec.Ports[0].Port)
	}
	encoded, _, err := unstructured.NestedString(objects["Secret"].Object, "data", "apiKey")
	if err != nil {
		t.Fatal(err)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || string(key) != "päss \"wörd\"" {
		t.Errorf("apiKey = %q, %v", key, err)
	}
}

// TestDemoAppPlacement: a node is asked for as a DaemonSet asks for it, and a
// port on the nodes by its number.
func TestDemoAppPlacement(t *testing.T) {
	objects := mustRender(t, map[string]any{
		"nodeName": "node-1.example.com",
		"service":  map[string]any{"type": "NodePort", "port": 80, "nodePort": 30080},
	})
	pod := typed[appsv1.Deployment](t, objects["Deployment"]).Spec.Template.Spec
	want := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"node-1.example.com"}}},
		}}},
	}}
	if diff := cmp.Diff(want, pod.Affinity); diff != "" || pod.NodeName != "" {
		t.Errorf("nodeName is %q, affinity (-want +got):\n%s", pod.NodeName, diff)
	}
	if got := typed[corev1.Service](t, objects["Service"]).Spec.Ports[0].NodePort; got != 30080 {
		t.Errorf("nodePort = %d", got)
	}
}

// TestDemoAppFreeValues: values that the operator does not set itself reach the right place.
func TestDemoAppFreeValues(t *testing.T) {
	objects := mustRender(t, map[string]any{
		"resources":         map[string]any{"limits": map[string]any{"cpu": 1, "memory": "1Gi"}},
		"extraEnv":          []any{map[string]any{"name": "LEVEL", "value": "debug"}},
		"podLabels":         map[string]any{"team": "web"},
		"podAnnotations":    map[string]any{"note": "1"},
		"nodeSelector":      map[string]any{"disk": "ssd"},
		"tolerations":       []any{map[string]any{"key": "spot", "operator": "Exists"}},
		"imagePullSecrets":  []any{map[string]any{"name": "registry"}},
		"priorityClassName": "high", "serviceAnnotations": map[string]any{"lb": "internal"},
	})
	template := typed[appsv1.Deployment](t, objects["Deployment"]).Spec.Template
	pod, container := template.Spec, template.Spec.Containers[0]
	// Values are merged over the default key by key.
	for what, got := range map[string][2]any{
		"cpu limit":       {"1", container.Resources.Limits.Cpu().String()},
		"memory limit":    {"1Gi", container.Resources.Limits.Memory().String()},
		"memory request":  {"16Mi", container.Resources.Requests.Memory().String()},
		"environment":     {corev1.EnvVar{Name: "LEVEL", Value: "debug"}, container.Env[len(container.Env)-1]},
		"number of env":   {2, len(container.Env)},
		"label":           {"web", template.Labels["team"]},
		"own label":       {"web", template.Labels["app.kubernetes.io/name"]},
		"annotation":      {"1", template.Annotations["note"]},
		"annotations":     {3, len(template.Annotations)},
		"node selector":   {map[string]string{"disk": "ssd"}, pod.NodeSelector},
		"tolerations":     {[]corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}, pod.Tolerations},
		"pull secrets":    {[]corev1.LocalObjectReference{{Name: "registry"}}, pod.ImagePullSecrets},
		"priority":        {"high", pod.PriorityClassName},
		"load balancer's": {"internal", objects["Service"].GetAnnotations()["lb"]},
	} {
		if diff := cmp.Diff(got[0], got[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestDemoAppIndexHTML(t *testing.T) {
	tests := map[string]string{
		"plain":            "Hello from the hybrid operator",
		"quotes":           `say "hello", it's 5 o'clock`,
		"markup":           `<script>alert("x")</script> & <b>`,
		"lines":            "one\ntwo\r\nthree\n\n  four\n",
		"another language": "Grüße, 世界, مرحبا 🚀",
		"a template":       "{{ .Values.apiKey }} {{ fail \"x\" }}",
		"YAML":             "a: b\n---\nkind: Secret\n# c",
		"looks like more":  "yes",
		"a number":         "0123",
		"backslashes":      `C:\new\table "\n"`,
		"tabs and bells":   "a\tb\ac\u0085d\u2028e\ufefff",
		"blanks around it": "  a  ",
		"long":             strings.Repeat("w<", 2048),
	}
	for name, message := range tests {
		t.Run(name, func(t *testing.T) {
			configMap := typed[corev1.ConfigMap](t, mustRender(t, map[string]any{"message": message})["ConfigMap"])
			want := "<html><body><h1>" + template.HTMLEscapeString(message) + "</h1></body></html>"
			if diff := cmp.Diff(want, strings.TrimSuffix(configMap.Data["index.html"], "\n")); diff != "" {
				t.Errorf("index.html (-want +got):\n%s", diff)
			}
			if strings.Contains(configMap.Data["index.html"], "verysecret") {
				t.Error("the page tells the key")
			}
		})
	}
}

// TestDemoAppChecksums: the pods roll when the page or the key changes, and for
// nothing else that leaves their template as it is.
func TestDemoAppChecksums(t *testing.T) {
	sums := func(values map[string]any) map[string]string {
		return typed[appsv1.Deployment](t, mustRender(t, values)["Deployment"]).Spec.Template.Annotations
	}
	before := sums(nil)
	tests := map[string]struct {
		values map[string]any
		// changed are the annotations that differ.
		changed []string
	}{
		"nothing":  {nil, nil},
		"message":  {map[string]any{"message": "Hi"}, []string{"checksum/config"}},
		"key":      {map[string]any{"apiKey": "otherkey"}, []string{"checksum/secret"}},
		"both":     {map[string]any{"message": "Hi", "apiKey": "otherkey"}, []string{"checksum/config", "checksum/secret"}},
		"replicas": {map[string]any{"replicaCount": 5}, nil},
		"service":  {map[string]any{"service": map[string]any{"type": "NodePort", "port": 81}}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var changed []string
			for key, value := range sums(tc.values) {
				if before[key] != value {
					changed = append(changed, key)
				}
			}
			slices.Sort(changed)
			if diff := cmp.Diff(tc.changed, changed); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
		})
	}
	for key, value := range before {
		if strings.Contains(value, "verysecret") || value == "" {
			t.Errorf("annotation %s = %q", key, value)
		}
	}
}

// TestDemoAppBadValues: the schema refuses the values, and the error does not reveal the key.
func TestDemoAppBadValues(t *testing.T) {
	const shortKey = "geheim"
	tests := map[string]map[string]any{
		"replicas below":    {"replicaCount": -1},
		"replicas above":    {"replicaCount": 101},
		"replicas as text":  {"replicaCount": "two"},
		"no image":          {"image": ""},
		"no message":        {"message": ""},
		"message too long":  {"message": strings.Repeat("a", 4097)},
		"no key":            {"apiKey": nil},
		"key too short":     {"apiKey": shortKey},
		"port 0":            {"service": map[string]any{"type": "ClusterIP", "port": 0}},
		"port above":        {"service": map[string]any{"type": "ClusterIP", "port": 65536}},
		"unknown type":      {"service": map[string]any{"type": "ExternalName", "port": 80}},
		"unknown value":     {"replicas": 3},
		"unknown, deeper":   {"service": map[string]any{"type": "ClusterIP", "port": 80, "name": "x"}},
		"service is a text": {"service": "ClusterIP"},
		"resources is text": {"resources": "much"},
		"our own label":     {"podLabels": map[string]any{"app.kubernetes.io/name": "x"}},
		"our annotation":    {"podAnnotations": map[string]any{"checksum/config": "x"}},
		"env without name":  {"extraEnv": []any{map[string]any{"value": "x"}}},
		"node port above":   {"service": map[string]any{"type": "NodePort", "port": 80, "nodePort": 65536}},
	}
	for name, values := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := rendered(t, demo(t, values))
			if got := wantError[*RenderError](t, err); got.Chart != "demo-app" {
				t.Errorf("chart = %q", got.Chart)
			}
			if !IsTerminal(err) {
				t.Error("the error is not terminal")
			}
			for _, secret := range []string{shortKey, "verysecret"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error tells the key: %v", err)
				}
			}
		})
	}
}

// TestDeprecatedChart: as with Helm, it is a reason for a warning, and no other.
func TestDeprecatedChart(t *testing.T) {
	var log bytes.Buffer
	o := &operation{logger: slog.New(slog.NewTextHandler(&log, nil))}
	for content, want := range map[string]bool{"": false, "deprecated: false\n": false, "deprecated: true\n": true} {
		log.Reset()
		chart := testChart(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: test\nversion: 1.2.3\n" + content})
		if _, err := o.parse(chart); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "level=WARN msg=\"The chart is deprecated\" chart=test version=1.2.3"); got != want {
			t.Errorf("%q: logged %q, want a warning: %t", content, log.String(), want)
		}
	}
}

// TestRefusedValues: the operation that finds them ends with a short error and sends
// nothing, and good values are deployed.
func TestRefusedValues(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.TakeRequests()
		_, err := f.reconcile(demo(t, map[string]any{"resources": "much"}))
		_ = wantError[*RenderError](t, err)
		if want := "render chart demo-app: values do not meet the chart's schema: values.resources: got string, want object"; err.Error() != want {
			t.Errorf("error is %q, want %q", err, want)
		}
		wantRequests(t, f)
		f.must(demo(t, nil), ActionInstall, CauseNotInstalled)
		_, err = f.reconcile(demo(t, map[string]any{"resources": "much"}))
		_ = wantError[*RenderError](t, err)
	})
}

// TestLongErrorsAreShortened: the message of a template is cut, and still known by its type.
func TestLongErrorsAreShortened(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": `{{ fail (repeat 1000000 "€") }}`})
		_, err := f.reconcile(desired)
		_ = wantError[*RenderError](t, err)
		if !IsTerminal(err) || len(err.Error()) > maxErrorText+100 || !utf8.ValidString(err.Error()) {
			t.Errorf("the error has %d bytes: %.200s", len(err.Error()), err)
		}
		if told := f.operations[len(f.operations)-1].Err; len(told.Error()) > maxErrorText+100 {
			t.Errorf("the operation tells of an error of %d bytes", len(told.Error()))
		}
	})
}
