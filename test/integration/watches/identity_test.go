// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package watches

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestVersionOfObjectIsNoLongerServed: an object of a version that a CRD drops is neither drift, nor
// left after an uninstall, nor lost by an upgrade to the new version.
func TestVersionOfObjectIsNoLongerServed(t *testing.T) {
	s := newSpace(t)
	installCRD(t, definition{kind: "Gadget", versions: []string{"v1", "v1beta1"}})
	for _, name := range []string{"a", "b"} {
		s.create("Cache", name, map[string]any{"size": 3, "extra": []any{object(group+"/v1beta1", "Gadget", "", "gadget-"+name)}})
		s.await("Cache", name, "Ready True Healthy")
	}
	before, err := s.of("Gadget").Get(t.Context(), "gadget-a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	installCRD(t, definition{kind: "Gadget", versions: []string{"v1"}})

	s.set("Cache", "a", map[string]any{"extra": []any{object(group+"/v1", "Gadget", "", "gadget-a")}})
	s.await("Cache", "a", "Ready True Healthy", "Deployed True UpgradeSuccessful")
	after, err := s.of("Gadget").Get(t.Context(), "gadget-a", metav1.GetOptions{})
	if err != nil || after.GetUID() != before.GetUID() {
		t.Errorf("after the upgrade to v1 the object is %v, error %v; want the one with UID %s", after, err, before.GetUID())
	}
	s.await("Cache", "b", "Ready True Healthy")
	for _, name := range []string{"a", "b"} {
		s.deleteAndWait("Cache", name)
		s.awaitGone("Gadget", s.of("Gadget"), "gadget-"+name)
	}
}

// TestCustomResourceBeforeItsController: the uninstall deletes a custom resource before the objects
// that its controller needs, and says which finalizers it waits for.
func TestCustomResourceBeforeItsController(t *testing.T) {
	s := newSpace(t)
	installCRD(t, definition{kind: "Vessel"})
	s.create("Cache", "a", map[string]any{"selector": "operator", "extra": []any{object(group+"/v1", "Vessel", "", "vessel")}})
	s.await("Cache", "a", "Ready True Healthy")
	s.patch(s.of("Vessel"), "vessel", map[string]any{"metadata": map[string]any{"finalizers": []string{"example.com/drain"}}})

	s.delete("Cache", "a")
	waiting := s.awaitThat("Cache", "a", "waits for the finalizer", func(live *unstructured.Unstructured) bool {
		return strings.Contains(conditionsOf(live)["Ready"].Message, "example.com/drain")
	})
	s.assertMessage(waiting, "Ready", "Vessel "+s.name+"/vessel")
	deployments := shared.Dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(s.name)
	if _, err := deployments.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("the Deployment went before the custom resource: %v", err)
	}
	s.patch(s.of("Vessel"), "vessel", map[string]any{"metadata": map[string]any{"finalizers": nil}})

	s.awaitGone("Cache", s.of("Cache"), "a")
	s.awaitGone("Deployment", deployments, "a")
}

// TestKeptObjectsAreTakenAgain: objects that an uninstall keeps are named, and belong to the same
// resource when it is applied again, in the namespace of the release and outside.
func TestKeptObjectsAreTakenAgain(t *testing.T) {
	s := newSpace(t)
	inside, outside := object("v1", "ConfigMap", "", "kept"), object("v1", "ConfigMap", fleetNamespace, s.name)
	for _, kept := range []map[string]any{inside, outside} {
		kept["metadata"].(map[string]any)["annotations"] = map[string]any{"helm.sh/resource-policy": "keep"}
	}
	spec := map[string]any{"size": 3, "extra": []any{inside, outside}}
	s.create("Cache", "a", spec)
	s.await("Cache", "a", "Ready True Healthy")
	s.deleteAndWait("Cache", "a")
	event := awaitEvent(t, s.name, "a", "Uninstalled")
	for _, name := range []string{s.name + "/kept", fleetNamespace + "/" + s.name} {
		if !strings.Contains(event.Note, "ConfigMap "+name+" (its resource policy keeps it)") {
			t.Errorf("the event does not name %s: %s", name, event.Note)
		}
	}

	s.create("Cache", "a", spec)

	s.await("Cache", "a", "Ready True Healthy", "Irreconcilable False Reconciled")
}
