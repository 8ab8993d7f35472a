// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package variants

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// statusRatcheted is a minor version of Kubernetes whose API server accepts a new status of an object
// whose spec breaks a CEL rule. 1.30 refuses it.
const statusRatcheted = 33

// tightened is an object that an earlier, looser CRD accepted, and that the CRD of this version refuses.
type tightened struct {
	name, file, finalizer string
	resource              schema.GroupVersionResource
	spec                  map[string]any
	// byRule is set if a CEL rule refuses the object, and not the OpenAPI schema.
	byRule bool
}

func tightenedObjects() []tightened {
	demoApp := tightened{
		file: "artifacts/crds/demo.example.com_demoapps.yaml", finalizer: v1alpha1.Finalizer,
		resource: v1alpha1.SchemeGroupVersion.WithResource("demoapps"),
	}
	long, rule := demoApp, demoApp
	long.name, long.spec = "long", map[string]any{"apiKey": "verysecret", "message": strings.Repeat("a", 5000)}
	rule.name, rule.spec, rule.byRule = "rule", map[string]any{"apiKey": "verysecret", "image": "nginx:not a tag"}, true
	database := tightened{
		name: "database", file: "artifacts/kinds/postgresql/crd.yaml", finalizer: databasev1.Finalizer,
		resource: databasev1.SchemeGroupVersion.WithResource("postgresqls"),
		spec:     map[string]any{"version": "17", "storageClassName": "not a name"}, byRule: true,
	}
	return []tightened{long, rule, database}
}

// TestTightenedRulesDoNotBlockDeletion stores objects with a CRD that has no rules, and then applies the
// CRD. The objects can be labeled, lose the operator's finalizer, also with a finalizer of another
// client, and their namespace ends.
func TestTightenedRulesDoNotBlockDeletion(t *testing.T) {
	apps.NewExclusive(t, shared)
	installPostgreSQLs(t)
	defer deleteCRDs(t, "postgresqls.database.example.com")
	cluster.StartOperator(t.Context(), t, shared)
	namespace := shared.CreateNamespace(t, metav1.ObjectMeta{GenerateName: "tightened-"})
	var files []string
	for _, object := range tightenedObjects() {
		if !slices.Contains(files, object.file) {
			files = append(files, object.file)
			loosen(t, object.file)
		}
	}
	for _, object := range tightenedObjects() {
		object.create(t, namespace)
	}

	if err := shared.InstallCRDs(t.Context(), files...); err != nil {
		t.Fatal(err)
	}
	for _, object := range tightenedObjects() {
		object.awaitRefusal(t, namespace)
		object.label(t, namespace)
		object.writeStatus(t, namespace)
	}
	if err := shared.Client.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	for _, object := range tightenedObjects() {
		client := shared.Dynamic.Resource(object.resource).Namespace(namespace)
		cluster.Eventually(t.Context(), t, object.name+" has only the finalizer of another client", func(ctx context.Context) (bool, error) {
			live, err := client.Get(ctx, object.held(), metav1.GetOptions{})
			return err == nil && slices.Equal(live.GetFinalizers(), []string{foreignFinalizer}), err
		})
		if _, err := client.Patch(t.Context(), object.held(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Errorf("remove the finalizer of another client: %v", err)
		}
	}
	cluster.Eventually(t.Context(), t, "the namespace is gone", func(ctx context.Context) (bool, error) {
		live, err := shared.Client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, remaining(live, err)
	})
}

// installPostgreSQLs installs the kind PostgreSQL for the test.
func installPostgreSQLs(t *testing.T) {
	t.Helper()
	const folder = "artifacts/kinds/postgresql/"
	if err := shared.ApplyFiles(t.Context(), "", folder+"rbac.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := shared.InstallCRDs(t.Context(), folder+"crd.yaml"); err != nil {
		t.Fatal(err)
	}
}

// foreignFinalizer is the finalizer of another client.
const foreignFinalizer = "example.org/hold"

// held is the name of the object that a finalizer of another client keeps.
func (o tightened) held() string { return o.name + "-held" }

func (o tightened) names() []string { return []string{o.name, o.held()} }

func (o tightened) object(name string) *unstructured.Unstructured {
	kind := map[string]string{"demoapps": "DemoApp", "postgresqls": "PostgreSQL"}[o.resource.Resource]
	object := &unstructured.Unstructured{Object: map[string]any{"spec": o.spec}}
	object.SetGroupVersionKind(o.resource.GroupVersion().WithKind(kind))
	object.SetName(name)
	if name == o.held() {
		object.SetFinalizers([]string{foreignFinalizer})
	}
	return object
}

// create creates the objects, and waits until the operator has added its finalizer.
func (o tightened) create(t *testing.T, namespace string) {
	t.Helper()
	client := shared.Dynamic.Resource(o.resource).Namespace(namespace)
	for _, name := range o.names() {
		// The API server uses a new schema shortly after the CRD was written.
		cluster.Eventually(t.Context(), t, "the loosened CRD accepts "+name, func(ctx context.Context) (bool, error) {
			_, err := client.Create(ctx, o.object(name), metav1.CreateOptions{})
			return err == nil, err
		})
		cluster.Eventually(t.Context(), t, name+" has the finalizer of the operator", func(ctx context.Context) (bool, error) {
			live, err := client.Get(ctx, name, metav1.GetOptions{})
			return err == nil && slices.Contains(live.GetFinalizers(), o.finalizer), err
		})
	}
}

// awaitRefusal waits until the API server refuses the object.
func (o tightened) awaitRefusal(t *testing.T, namespace string) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "the CRD refuses "+o.name, func(ctx context.Context) (bool, error) {
		_, err := shared.Dynamic.Resource(o.resource).Namespace(namespace).Create(ctx, o.object("probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInvalid(err), err
	})
}

func (o tightened) label(t *testing.T, namespace string) {
	t.Helper()
	for _, name := range o.names() {
		_, err := shared.Dynamic.Resource(o.resource).Namespace(namespace).
			Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"a"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Errorf("label %s: %v", name, err)
		}
	}
}

// writeStatus writes a status as the operator does.
func (o tightened) writeStatus(t *testing.T, namespace string) {
	t.Helper()
	_, err := shared.Dynamic.Resource(o.resource).Namespace(namespace).
		Patch(t.Context(), o.name, types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`), metav1.PatchOptions{}, "status")
	switch minor := shared.Minor(); {
	case !o.byRule || minor >= statusRatcheted:
		if err != nil {
			t.Errorf("status of %s: %v", o.name, err)
		}
	case minor == 30 && !apierrors.IsInvalid(err):
		t.Errorf("status of %s on Kubernetes 1.30: %v, want a refusal: the pages say so", o.name, err)
	}
}

// remaining says why the deletion of a namespace waits.
func remaining(namespace *corev1.Namespace, err error) error {
	if err != nil {
		return err
	}
	var texts []string
	for _, condition := range namespace.Status.Conditions {
		texts = append(texts, condition.Message)
	}
	return fmt.Errorf("the namespace waits: %s", strings.Join(texts, "; "))
}

// loosen applies the CRD of a file without the rules for its spec.
func loosen(t *testing.T, file string) {
	t.Helper()
	objects, err := shared.Objects(file)
	if err != nil || len(objects) != 1 {
		t.Fatalf("%s: %d objects, %v", file, len(objects), err)
	}
	versions, _, err := unstructured.NestedSlice(objects[0].Object, "spec", "versions")
	if err != nil || len(versions) == 0 {
		t.Fatalf("%s: %d versions, %v", file, len(versions), err)
	}
	for _, version := range versions {
		schema, _, err := unstructured.NestedFieldNoCopy(version.(map[string]any), "schema", "openAPIV3Schema", "properties", "spec")
		if err != nil {
			t.Fatal(err)
		}
		withoutRules(schema)
	}
	if err := unstructured.SetNestedSlice(objects[0].Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if err := shared.ApplyObject(t.Context(), "", objects[0]); err != nil {
		t.Fatal(err)
	}
}

// withoutRules removes the rules of a schema that do not define its form.
func withoutRules(schema any) {
	switch schema := schema.(type) {
	case map[string]any:
		if _, field := schema["type"].(string); field {
			for _, rule := range []string{"maxLength", "minLength", "pattern", "enum", "x-kubernetes-validations"} {
				delete(schema, rule)
			}
		}
		for _, below := range schema {
			withoutRules(below)
		}
	case []any:
		for _, below := range schema {
			withoutRules(below)
		}
	}
}
