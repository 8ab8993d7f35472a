// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/custom"
)

// read reads a custom resource from YAML.
func read(t *testing.T, text string) *custom.Resource {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte("apiVersion: example.com/v1\nkind: App\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, data)
}

func decode(t *testing.T, data []byte) *custom.Resource {
	t.Helper()
	r := &custom.Resource{}
	if err := json.Unmarshal(data, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// content returns the decoded content of a custom resource.
func content(t *testing.T, r *custom.Resource) map[string]any {
	t.Helper()
	decoded, err := r.Content()
	if err != nil {
		t.Fatal(err)
	}
	return decoded.Object
}

const metadata = "metadata: {name: a, namespace: default, uid: u}\n"

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

// TestContent: the content is the object without status and managedFields. Each caller gets its
// own.
func TestContent(t *testing.T) {
	r := read(t, "metadata: {name: a, namespace: default, uid: u, labels: {x: z}, annotations: {p: q}, managedFields: [{manager: kubectl}]}\n"+
		"spec: {size: 3, text: '<&>', of: [1.5, null, {}]}\nstatus: {observedGeneration: 2}\nfurther: true\n")

	first := content(t, r)
	first["spec"].(map[string]any)["size"] = int64(4)

	want := map[string]any{
		"apiVersion": "example.com/v1", "kind": "App", "further": true,
		"metadata": map[string]any{
			"name": "a", "namespace": "default", "uid": "u", "labels": map[string]any{"x": "z"}, "annotations": map[string]any{"p": "q"},
		},
		"spec": map[string]any{"size": int64(3), "text": "<&>", "of": []any{1.5, nil, map[string]any{}}},
	}
	if diff := cmp.Diff(want, content(t, r.DeepCopy())); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
	if r.Excess() != nil || r.Status.ObservedGeneration != 2 || r.GetName() != "a" || r.Kind != "App" {
		t.Errorf("resource is %v", r)
	}
}

// TestSameLabels: a change of the labels is noticed, although the labels are not kept.
func TestSameLabels(t *testing.T) {
	labeled := func(labels string) *custom.Resource { return read(t, "metadata: {name: a, labels: "+labels+"}\n") }
	if !labeled("{a: b}").SameLabels(labeled("{a: b}")) || labeled("{a: b}").SameLabels(labeled("{a: c}")) || labeled("{a: b}").SameLabels(read(t, metadata)) {
		t.Error("labels are compared wrongly")
	}
}

// TestBeyondTheLimits: an object beyond the limits of values says so, and has its metadata only.
func TestBeyondTheLimits(t *testing.T) {
	const described = `"metadata": {"name": "a", "namespace": "default", "uid": "u", "generation": 3, "labels": {"x": "y"}}`
	withSpec := func(spec string) string { return "{" + described + `, "spec": ` + spec + "}" }
	withLabels := func(labels string) string {
		return `{"metadata": {"name": "a", "namespace": "default", "uid": "u", "generation": 3, "labels": {` + labels + `}}, "spec": {"a": 1}}`
	}
	full := map[string]any{"name": "a", "namespace": "default", "uid": "u", "generation": int64(3), "labels": map[string]any{"x": "y"}}
	slim := map[string]any{"name": "a", "namespace": "default", "uid": "u", "generation": int64(3)}
	tests := map[string]struct {
		object, says string
		metadata     map[string]any
	}{
		"nodes": {
			withSpec(`{"l": [` + strings.Repeat(`{"":0},`, 100_000) + `0]}`),
			"spec: it has 300005 keys, scalars, lists and objects, and all values of one resource together may have 20000", full,
		},
		"bytes":      {withSpec(`"` + strings.Repeat("x", 1_400_000) + `"`), "spec: it has 1400006 bytes, and all values of one resource together may have 1048576", full},
		"depth":      {withSpec(strings.Repeat("[", 101) + strings.Repeat("]", 101)), "spec: it has 101 lists and objects within each other, and may have 100", full},
		"a long key": {withSpec(`{"` + strings.Repeat("k", 1025) + `": 1}`), "spec: it has a key of 1025 bytes", full},
		"many fields": {
			"{" + described + strings.Repeat(`, "f": 1`, 10_001) + "}", "f: it has 2 keys, scalars, lists and objects, and all values of one resource", full,
		},
		"labels": {
			withLabels(strings.Repeat(`"k": "", `, 50_000) + `"x": "y"`),
			"too many or too long labels, annotations, owner references or finalizers: metadata: it has 100014 keys", slim,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := decode(t, []byte(test.object))
			if r.Excess() == nil || !strings.HasPrefix(r.Excess().Error(), test.says) {
				t.Fatalf("excess is %v, want %s", r.Excess(), test.says)
			}
			if diff := cmp.Diff(test.metadata, content(t, r)["metadata"]); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			if _, has := content(t, r)["spec"]; has {
				t.Error("the content has a spec")
			}
		})
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
			r := read(t, metadata+text)
			if r.Status.ObservedGeneration != 0 || r.Status.DeployedRelease != nil || len(r.Status.Conditions) > 0 {
				t.Errorf("status is %v", r.Status)
			}
		})
	}
}

// TestUpstreamStatus: a deployed release without a revision belongs to another operator.
func TestUpstreamStatus(t *testing.T) {
	r := read(t, metadata+"status: {deployedRelease: {name: a, manifest: 'kind: Secret'}, conditions: [{type: Deployed, status: 'True', reason: InstallSuccessful}]}\n")

	if r.Status.DeployedRelease != nil || r.Status.Manifest != "" {
		t.Errorf("deployed release is %v", r.Status.DeployedRelease)
	}
	if diff := cmp.Diff([]string{"Deployed"}, types(r.Status.Conditions)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// TestLargestStatus: the largest inventory that a release may have is read. A longer list of empty
// objects is not.
func TestLargestStatus(t *testing.T) {
	const uid = "0b5ac1de-7fd3-4a25-8a3b-1c1f6a6f8d5a"
	entry := `{"apiVersion":"v1","kind":"ConfigMap","namespace":"default","name":"a","uid":"` + uid + `","digest":"` + strings.Repeat("x", 80) + `"},`
	status := func(inventory string) *custom.Resource {
		return decode(t, []byte(`{"metadata":{"name":"a"},"status":{"observedGeneration":2,"inventory":[`+inventory+`{}]}}`))
	}

	if r := status(strings.Repeat(entry, 512<<10/len(entry))); len(r.Status.Inventory) < 2_000 {
		t.Errorf("the inventory has %d entries", len(r.Status.Inventory))
	}
	for _, count := range []int{1_000, 100_000} {
		if r := status(strings.Repeat("{},", count)); r.Status.ObservedGeneration != 0 {
			t.Errorf("%d empty objects are read", count)
		}
	}
}

// TestForeignConditions: conditions of other clients are applied only where the conditions are one
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
			r := read(t, "metadata: {name: a, managedFields: [{manager: x, fieldsV1: "+tc.fields+"}]}\n"+status)

			fields := applied(t, r)

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
		r := read(t, metadata+"status: {conditions: [{type: "+name+", status: 'True', reason: x}]}\n")
		r.Status.Keyed = true
		if conditions, ok := applied(t, r)["conditions"].([]any); !ok || len(conditions) != 1 {
			t.Errorf("%s is not applied", name)
		}
	}
}

// TestManifest is read and applied with the deployed release.
func TestManifest(t *testing.T) {
	r := read(t, metadata+"status: {deployedRelease: {name: a, revision: 2, chart: c, chartVersion: 1.0.0, manifest: 'kind: ConfigMap'}}\n")
	if r.Status.Manifest != "kind: ConfigMap" {
		t.Errorf("manifest is %q", r.Status.Manifest)
	}
	encoded, err := json.Marshal(map[string]any{"metadata": map[string]any{}, "status": applied(t, r)})
	if err != nil {
		t.Fatal(err)
	}
	again := decode(t, encoded)
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

// TestPruned keeps the fields that the API server removed from a status, until the object is gone.
func TestPruned(t *testing.T) {
	var kept custom.Pruned
	written := read(t, metadata+"status: {observedGeneration: 2, deployedRelease: {name: a, revision: 1}, inventory: [{kind: ConfigMap, name: a}]}\n")
	pass := func(observed, object *custom.Resource) *kind.Pass[*custom.Resource] {
		return &kind.Pass[*custom.Resource]{Observed: observed, Object: object}
	}
	empty := read(t, metadata+"status: {}\n")

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
