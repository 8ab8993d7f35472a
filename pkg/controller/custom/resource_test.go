// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/controller/custom"
	"github.com/example/demoapp-controller/pkg/controller/kind"
)

// object reads an object.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte("apiVersion: example.com/v1\nkind: App\nmetadata: {name: a, namespace: default, uid: u}\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return o
}

// applied returns the status that is applied.
func applied(t *testing.T, r *custom.Resource) map[string]any {
	t.Helper()
	data, err := json.Marshal(r.Status)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

func types(conditions []metav1.Condition) []string {
	found := []string{}
	for _, c := range conditions {
		found = append(found, c.Type)
	}
	return found
}

// TestContent: the content has neither status nor managedFields.
func TestContent(t *testing.T) {
	original := object(t, "spec: {size: 3}\nstatus: {observedGeneration: 2}\n")
	original.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})

	r := custom.New(original)

	if _, ok := r.Object["status"]; ok || len(r.GetManagedFields()) > 0 || r.Status.ObservedGeneration != 2 {
		t.Errorf("content is %v, status %v", r.Object, r.Status)
	}
	r.DeepCopy().Object["spec"].(map[string]any)["size"] = int64(4)
	if size, _, _ := unstructured.NestedInt64(r.Object, "spec", "size"); size != 3 {
		t.Error("a copy shares its content")
	}
}

// TestUnreadableStatus counts as empty.
func TestUnreadableStatus(t *testing.T) {
	tests := map[string]string{
		"a text":                     "status: done\n",
		"conditions of another form": "status: {observedGeneration: 2, conditions: ok}\n",
		"a number for a text":        "status: {observedGeneration: 2, deployedRelease: {name: 3, revision: 1}}\n",
		"inventory of another form":  "status: {observedGeneration: 2, inventory: {a: b}}\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			r := custom.New(object(t, text))
			if r.Status.ObservedGeneration != 0 || r.Status.DeployedRelease != nil || len(r.Status.Conditions) > 0 {
				t.Errorf("status is %v", r.Status)
			}
		})
	}
}

// TestUpstreamStatus: a deployed release without a revision is that of another operator.
func TestUpstreamStatus(t *testing.T) {
	r := custom.New(object(t, "status: {deployedRelease: {name: a, manifest: 'kind: Secret'}, conditions: [{type: Deployed, status: 'True', reason: InstallSuccessful}]}\n"))

	if r.Status.DeployedRelease != nil || r.Status.Manifest != "" {
		t.Errorf("deployed release is %v", r.Status.DeployedRelease)
	}
	if diff := cmp.Diff([]string{"Deployed"}, types(r.Status.Conditions)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// TestForeignConditions: conditions of others are applied only where the conditions are one
// value, because the API server would remove them.
func TestForeignConditions(t *testing.T) {
	const status = "status: {conditions: [{type: Ready, status: 'True', reason: Healthy}, {type: Backed, status: 'True', reason: Nightly}]}\n"
	tests := map[string]struct {
		fields string
		want   []any
	}{
		"keyed by type": {`{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{}}}}`, []any{"Ready"}},
		"atomic":        {`{"f:status":{"f:conditions":{}}}`, []any{"Ready", "Backed"}},
		"not written":   {`{"f:spec":{}}`, []any{"Ready", "Backed"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := object(t, status)
			o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "x", FieldsV1: metav1.NewFieldsV1(tc.fields)}})

			fields := applied(t, custom.New(o))

			got := []any{}
			for _, condition := range fields["conditions"].([]any) {
				got = append(got, condition.(map[string]any)["type"])
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("applied conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOwnConditions: each condition of a release kind is ours.
func TestOwnConditions(t *testing.T) {
	for _, name := range []string{
		"Ready", "Reconciling", "Stalled", "Initialized", "Deployed", "Failed", "Drifted", "Suspended", "Remediated",
		"ReleaseFailed", "Irreconcilable", "Paused",
	} {
		r := custom.New(object(t, "status: {conditions: [{type: "+name+", status: 'True', reason: x}]}\n"))
		r.Status.Keyed = true
		if conditions, ok := applied(t, r)["conditions"].([]any); !ok || len(conditions) != 1 {
			t.Errorf("%s is not applied", name)
		}
	}
}

// TestManifest is read and applied with the deployed release.
func TestManifest(t *testing.T) {
	r := custom.New(object(t, "status: {deployedRelease: {name: a, revision: 2, chart: c, chartVersion: 1.0.0, manifest: 'kind: ConfigMap'}}\n"))
	if r.Status.Manifest != "kind: ConfigMap" {
		t.Errorf("manifest is %q", r.Status.Manifest)
	}
	again := custom.New(&unstructured.Unstructured{Object: map[string]any{"status": applied(t, r)}})
	if diff := cmp.Diff(r.Status, again.Status); diff != "" {
		t.Errorf("status after a round trip (-want +got):\n%s", diff)
	}

	r.Status.Manifest = ""
	if _, ok := applied(t, r)["deployedRelease"].(map[string]any)["manifest"]; ok {
		t.Error("an empty manifest is applied")
	}
	r.Status.Manifest, r.Status.DeployedRelease = "kind: ConfigMap", nil
	if _, ok := applied(t, r)["deployedRelease"]; ok {
		t.Error("a manifest without a release is applied")
	}
}

// TestPruned keeps what the API server removed from a status, until the object is gone.
func TestPruned(t *testing.T) {
	var kept custom.Pruned
	written := custom.New(object(t, "status: {observedGeneration: 2, deployedRelease: {name: a, revision: 1}, inventory: [{kind: ConfigMap, name: a}]}\n"))
	pass := func(observed, object *custom.Resource) *kind.Pass[*custom.Resource] {
		return &kind.Pass[*custom.Resource]{Observed: observed, Object: object}
	}
	empty := custom.New(object(t, "status: {}\n"))

	if kept.Notice(pass(written.DeepCopy(), written.DeepCopy())) {
		t.Error("a status that is stored as written counts as pruned")
	}
	if !kept.Notice(pass(empty.DeepCopy(), written.DeepCopy())) {
		t.Error("a pruned status is not noticed")
	}
	if kept.Notice(pass(empty.DeepCopy(), written.DeepCopy())) {
		t.Error("the second pruned status counts as the first")
	}
	next := pass(empty.DeepCopy(), empty.DeepCopy())
	kept.Recall(next)
	if diff := cmp.Diff(written.Status, next.Object.Status); diff != "" {
		t.Errorf("recalled status (-want +got):\n%s", diff)
	}
	recreated := empty.DeepCopy()
	recreated.SetUID("other")
	next = pass(recreated, recreated.DeepCopy())
	kept.Recall(next)
	if next.Object.Status.DeployedRelease != nil {
		t.Error("an object that was created again has the status of the old one")
	}
	kept.Forget(next.Key())
	next = pass(empty.DeepCopy(), empty.DeepCopy())
	kept.Recall(next)
	if next.Object.Status.DeployedRelease != nil {
		t.Error("a forgotten status is recalled")
	}
}
