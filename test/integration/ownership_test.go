// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// foreign are objects of another owner, by kind.
var foreign = map[string]string{
	"Deployment": `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 0,
		"selector": {"matchLabels": {"app": "theirs"}}, "template": {"metadata": {"labels": {"app": "theirs"}},
		"spec": {"containers": [{"name": "main", "image": "theirs:1"}]}}}}`,
	"Service": `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
		"spec": {"selector": {"app": "theirs"}, "ports": [{"port": 81}]}}`,
	"ConfigMap": `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"theirs": "data"}}`,
	"Secret":    `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}, "stringData": {"theirs": "data"}}`,
}

func createForeign(t *testing.T, ns *apps.Namespace, kind string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(foreign[kind])); err != nil {
		t.Fatal(err)
	}
	for _, owned := range ownedKinds {
		if owned.kind != kind {
			continue
		}
		created, err := shared.Dynamic.Resource(owned.resource).Namespace(ns.Name).Create(t.Context(), object,
			metav1.CreateOptions{FieldManager: "their-tool"})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	t.Fatalf("no kind %s", kind)
	return nil
}

func TestForeignObjectBlocksInstall(t *testing.T) {
	t.Parallel()
	for _, owned := range ownedKinds {
		t.Run(owned.kind, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			client := shared.Dynamic.Resource(owned.resource).Namespace(ns.Name)
			theirs := createForeign(t, ns, owned.kind)
			ns.Create(apps.Named("web"))
			app := ns.Await("web", "refused", isConflict)
			for _, conditionType := range []string{apimeta.ConditionReady, releasev1alpha1.ConditionDeployed, releasev1alpha1.ConditionFailed} {
				condition := apps.Condition(app, conditionType)
				if condition.Reason != apimeta.ReasonOwnershipConflict {
					t.Errorf("%s is %+v", conditionType, condition)
				}
				for _, part := range []string{owned.kind, "web", "their-tool"} {
					if !strings.Contains(condition.Message, part) {
						t.Errorf("%s does not say %q: %s", conditionType, part, condition.Message)
					}
				}
			}
			ns.AwaitEvent("web", apimeta.ReasonOwnershipConflict, owned.kind, "web", "their-tool")
			ns.AwaitQuiet(quiet)
			assertOnlyTheirs(t, ns, owned.kind)
			if live := get(t, client, "web"); live.GetUID() != theirs.GetUID() || live.GetGeneration() != theirs.GetGeneration() ||
				strings.Contains(managers(live), "helm") {
				t.Errorf("the foreign object was changed by %s", managers(live))
			}

			if err := client.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Now it is free" })
			if app := ns.AwaitReady("web"); !apps.IsAbsent(app, releasev1alpha1.ConditionFailed) || apps.Revision(app) != 1 {
				t.Errorf("revision %d, conditions %+v", apps.Revision(app), app.Status.Conditions)
			}
			assertRecords(t, ns, "web v1 deployed")
		})
	}
}

func isConflict(app *v1alpha1.DemoApp) bool {
	return apps.IsStalled(app, apimeta.ReasonOwnershipConflict)
}

// assertOnlyTheirs asserts that the release has no object and no record. Only the foreign object
// exists.
func assertOnlyTheirs(t *testing.T, ns *apps.Namespace, kind string) {
	t.Helper()
	for found := range ns.Objects("web").All() {
		if found != kind {
			t.Errorf("there is a %s", found)
		}
	}
	if records := ns.Records("web"); len(records) > 0 {
		t.Errorf("there are release records: %v", records)
	}
}

// managers returns the field managers of an object.
func managers(object *unstructured.Unstructured) string {
	var names []string
	for _, entry := range object.GetManagedFields() {
		names = append(names, entry.Manager)
	}
	return strings.Join(names, ", ")
}
