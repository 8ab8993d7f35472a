// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/helm"
)

// workload is the template of a Deployment without pods. Its container has the given fields, in YAML.
func workload(container string) source {
	return smallChart("", source{"templates/web.yaml": []byte(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {message: {{ .Values.message | default "one" | quote }}}}
    spec:
      imagePullSecrets: [{name: registry}, {name: registry}]
      containers:
      - name: web
        image: nginx
        ` + container + "\n")})
}

// twice has two variables of one name, and one port twice.
func twice() source {
	return workload("env: [{name: PGUSER, value: a}, {name: OTHER, value: a}, {name: PGUSER, value: b}]\n" +
		"        ports: [{containerPort: 80, name: http}, {containerPort: 80}]")
}

func liveWorkload(t *testing.T, namespace string) *appsv1.Deployment {
	t.Helper()
	live, err := shared.Client.AppsV1().Deployments(namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return live
}

// assertOnce asserts that each key of the lists counts once, as in the pods of Helm 3.
func assertOnce(t *testing.T, namespace string) {
	t.Helper()
	pod := liveWorkload(t, namespace).Spec.Template.Spec
	var got []string
	for _, variable := range pod.Containers[0].Env {
		got = append(got, variable.Name+"="+variable.Value)
	}
	for _, port := range pod.Containers[0].Ports {
		got = append(got, port.Name)
	}
	for _, secret := range pod.ImagePullSecrets {
		got = append(got, secret.Name)
	}
	if diff := cmp.Diff([]string{"OTHER=a", "PGUSER=b", "http", "registry"}, got); diff != "" {
		t.Errorf("variables, ports and pull secrets (-want +got):\n%s", diff)
	}
}

// TestEqualKeysOfLists asserts that a chart with equal keys in its lists runs with the engine as it
// runs with Helm 3, through the life of a release and after a take-over.
func TestEqualKeysOfLists(t *testing.T) {
	t.Parallel()
	for name, byHelm3 := range map[string]bool{"installed by the engine": false, "taken over from Helm 3": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, newNamespace(t))
			if byHelm3 {
				user := stockOn(t, e)
				user.clientSide = true
				if err := user.deploy(t.Context(), twice(), nil); err != nil {
					t.Fatal(err)
				}
				if got := liveWorkload(t, e.namespace).Spec.Template.Spec.Containers[0].Env; len(got) != 3 {
					t.Fatalf("Helm 3 installed %v, want equal keys", got)
				}
				awaitNewest(t, e)
			}
			desired := e.desired(twice(), nil)
			if err := e.converge(t.Context(), desired); err != nil {
				t.Fatal(err)
			}
			assertOnce(t, e.namespace)

			newer := e.desired(twice(), values{"message": "two"})
			if err := e.converge(t.Context(), newer); err != nil {
				t.Fatal(err)
			}
			assertOnce(t, e.namespace)

			if err := shared.Client.AppsV1().Deployments(e.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			e.await("the deletion", func(s helm.Snapshot) bool { return len(s.Drifts) > 0 })
			if err := e.converge(t.Context(), newer); err != nil {
				t.Fatal(err)
			}
			assertOnce(t, e.namespace)

			snapshot, err := e.Observe(t.Context(), e.key(), e.baseline)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.rollback(t.Context(), snapshot.Record.Revision-1); err != nil {
				t.Fatal(err)
			}
			assertOnce(t, e.namespace)
			if got := liveWorkload(t, e.namespace).Spec.Template.Annotations["message"]; got != "one" {
				t.Errorf("after the rollback, the message is %q", got)
			}
			if err := e.uninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestEqualKeysThatDiffer asserts that the engine names file, object, list and key, and that the
// deployed objects are kept in order meanwhile.
func TestEqualKeysThatDiffer(t *testing.T) {
	t.Parallel()
	e := newEngine(t, newNamespace(t))
	good := e.desired(twice(), nil)
	if err := e.converge(t.Context(), good); err != nil {
		t.Fatal(err)
	}

	err := e.deploy(t.Context(), workload("ports: [{containerPort: 80, name: a}, {containerPort: 80, name: b}]"), nil)

	var render *helm.RenderError
	const want = `small/templates/web.yaml: Deployment NAMESPACE/web: spec.template.spec.containers[web].ports: 2 items have the key "80/TCP": they differ in name`
	if !errors.As(err, &render) || !strings.Contains(err.Error(), strings.ReplaceAll(want, "NAMESPACE", e.namespace)) {
		t.Errorf("error is %v", err)
	}
	assertOnce(t, e.namespace)
}

// TestMetadataOfTheServer asserts that metadata which only the API server sets does no harm in a
// template.
func TestMetadataOfTheServer(t *testing.T) {
	t.Parallel()
	for name, metadata := range map[string]string{
		"uid":               "uid: 1c9b3ae5-0000-4000-8000-000000000000",
		"resourceVersion":   `resourceVersion: "1"`,
		"generation":        "generation: 7",
		"deletionTimestamp": `deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 0`,
		"creationTimestamp": `creationTimestamp: "2026-01-01T00:00:00Z", selfLink: /x`,
		"managedFields":     `managedFields: [{manager: a, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chart := smallChart("", source{"templates/b.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, " + metadata +
				"}\ndata: {message: {{ .Values.message | default \"one\" }}}\n")})
			e := newEngine(t, newNamespace(t))
			for _, message := range []string{"one", "two"} {
				if err := e.converge(t.Context(), e.desired(chart, values{"message": message})); err != nil {
					t.Fatal(err)
				}
			}
			if err := shared.Client.CoreV1().ConfigMaps(e.namespace).Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			e.await("the deletion", func(s helm.Snapshot) bool { return len(s.Drifts) > 0 })
			if err := e.converge(t.Context(), e.desired(chart, values{"message": "two"})); err != nil {
				t.Fatal(err)
			}
			if err := e.rollback(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			live, err := shared.Client.CoreV1().ConfigMaps(e.namespace).Get(t.Context(), "b", metav1.GetOptions{})
			if err != nil || live.Data["message"] != "one" {
				t.Errorf("after the rollback, the data is %v, %v", live, err)
			}
		})
	}
}

// TestFieldValidation asserts that a release runs with misspelled fields as with Helm 3, if its
// FieldValidation says so, and that it is refused otherwise.
func TestFieldValidation(t *testing.T) {
	t.Parallel()
	misspelled := workload("imagePullPolcy: Always\n        resources: {limit: {cpu: 1}, requests: {cpu: 100m}}")
	for _, validation := range []string{metav1.FieldValidationStrict, metav1.FieldValidationWarn, metav1.FieldValidationIgnore} {
		t.Run(validation, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, newNamespace(t))
			desired := e.desired(misspelled, nil)
			desired.FieldValidation = validation

			deployed, err := e.execute(t.Context(), desired)

			var refused *helm.RefusedError
			if validation == metav1.FieldValidationStrict {
				if !errors.As(err, &refused) {
					t.Errorf("error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if validation == metav1.FieldValidationWarn {
				for _, field := range []string{"imagePullPolcy", "resources.limit"} {
					want = append(want, "small/templates/web.yaml: Deployment "+e.namespace+"/web: spec.template.spec.containers[web]."+field+
						": the API server does not know this field, so it is left out")
				}
			}
			notes := slices.DeleteFunc(deployed.Notes, func(note string) bool { return strings.Contains(note, "imagePullSecrets") })
			if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(notes, "\n")); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			if err := shared.Client.AppsV1().Deployments(e.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			e.await("the deletion", func(s helm.Snapshot) bool { return len(s.Drifts) > 0 })
			if err := e.converge(t.Context(), desired); err != nil {
				t.Fatal(err)
			}
			if got := liveWorkload(t, e.namespace).Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String(); got != "100m" {
				t.Errorf("the request is %s", got)
			}
		})
	}
}
