// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp_test

import (
	"encoding/json"
	runtimestats "runtime"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/example/demoapp-controller/pkg/registries"
	"github.com/example/demoapp-controller/pkg/webhook"
	"github.com/example/demoapp-controller/pkg/webhook/webapp"
	"github.com/example/demoapp-controller/test/webappcases"
)

func handlers(t *testing.T, approved ...string) map[string]webhook.Handler {
	t.Helper()
	list, err := registries.Parse(approved)
	if err != nil {
		t.Fatal(err)
	}
	return webapp.Handlers(list)
}

func encode(t *testing.T, object *unstructured.Unstructured) []byte {
	t.Helper()
	raw, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// requestOf returns the request of the API server for an object. old is the previous version, or
// nil.
func requestOf(t *testing.T, object, old *unstructured.Unstructured) *admissionv1.AdmissionRequest {
	t.Helper()
	request := &admissionv1.AdmissionRequest{
		Resource:  metav1.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "webapps"},
		Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: encode(t, object)},
	}
	if old != nil {
		request.Operation, request.OldObject = admissionv1.Update, runtime.RawExtension{Raw: encode(t, old)}
	}
	return request
}

// patched applies the patch of a response.
func patched(t *testing.T, object *unstructured.Unstructured, response webhook.Response) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(response.Patch)
	if err != nil {
		t.Fatal(err)
	}
	if len(response.Patch) == 0 {
		return object
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := patch.Apply(encode(t, object))
	if err != nil {
		t.Fatal(err)
	}
	result := &unstructured.Unstructured{}
	if err := result.UnmarshalJSON(changed); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestCases(t *testing.T) {
	approved := handlers(t, webappcases.Registries...)
	for _, c := range webappcases.Load(t) {
		t.Run(c.Name, func(t *testing.T) {
			if c.Namespace == webappcases.System {
				t.Skip("the matchConditions of the webhook configurations spare system namespaces")
			}
			mutate, validate := approved[webapp.PathMutate], approved[webapp.PathValidate]
			if webappcases.Production(c.Namespace) {
				mutate, validate = approved[webapp.PathMutateProduction], approved[webapp.PathValidateProduction]
			}
			object, old := c.Object(), c.Old()
			if old != nil && c.Before.Deleting {
				deleted := metav1.NewTime(time.Unix(0, 0))
				old.SetDeletionTimestamp(&deleted)
			}

			mutated, mutateErr := mutate(requestOf(t, object, old))
			result := patched(t, object, mutated)
			validated, validateErr := validate(requestOf(t, result, old))

			if mutateErr != nil || validateErr != nil {
				t.Fatal(mutateErr, validateErr)
			}
			if c.Denied != "" {
				if !strings.Contains(validated.Denied, c.Denied) {
					t.Errorf("denied with %q, want %q", validated.Denied, c.Denied)
				}
				return
			}
			if validated.Denied != "" {
				t.Fatalf("denied with %q, want it allowed", validated.Denied)
			}
			if diff := cmp.Diff(c.Result, webappcases.ResultOf(t, result), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func newWebApp(spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "WebApp", "metadata": map[string]any{"name": "web"}, "spec": spec,
	}}
}

func TestEmptyRegistryListApprovesAll(t *testing.T) {
	object := newWebApp(map[string]any{"replicas": int64(1), "image": "quay.io/any/image"})

	response, err := handlers(t)[webapp.PathValidate](requestOf(t, object, nil))

	if err != nil || response.Denied != "" {
		t.Errorf("denied with %q, %v", response.Denied, err)
	}
}

func TestMessageNamesAllBrokenRules(t *testing.T) {
	object := newWebApp(map[string]any{"replicas": int64(11), "image": "quay.io/any/image"})

	response, err := handlers(t, "docker.io")[webapp.PathValidateProduction](requestOf(t, object, nil))
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for problem := range strings.SplitSeq(response.Denied, "; ") {
		field, _, _ := strings.Cut(problem, ":")
		fields = append(fields, field)
	}
	want := []string{"spec.image", "spec.replicas", "spec.resources.limits.cpu", "spec.resources.limits.memory"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// TestMutationIsIdempotent: the API server may call the webhook more than once.
func TestMutationIsIdempotent(t *testing.T) {
	object := newWebApp(map[string]any{"replicas": int64(1), "image": "nginx"})
	mutate := handlers(t)[webapp.PathMutateProduction]
	first, err := mutate(requestOf(t, object, nil))
	if err != nil {
		t.Fatal(err)
	}

	second, err := mutate(requestOf(t, patched(t, object, first), nil))

	if err != nil || len(second.Patch) != 0 || len(first.Patch) == 0 {
		t.Errorf("patches are %v and %v, %v", first.Patch, second.Patch, err)
	}
}

// TestLargeObjectsTakeLittleMemory: the memory of a decoded object is limited to a multiple of its
// text.
func TestLargeObjectsTakeLittleMemory(t *testing.T) {
	const size, limit = 128 << 10, 4
	filling := "[" + strings.Repeat("{},", size/3) + "{}]"
	tests := []struct{ name, object string }{
		{"spec", `{"metadata":{"name":"web"},"spec":{"image":` + filling + `}}`},
		{"managed fields", `{"metadata":{"name":"web","managedFields":` + filling + `}}`},
		{"status", `{"metadata":{"name":"web"},"status":` + filling + `}`},
	}
	for _, test := range tests {
		for path, handler := range handlers(t, "docker.io") {
			t.Run(test.name+" "+path, func(t *testing.T) {
				request := requestOf(t, newWebApp(nil), newWebApp(nil))
				request.Object.Raw, request.OldObject.Raw = []byte(test.object), []byte(test.object)
				var before, after runtimestats.MemStats
				runtimestats.ReadMemStats(&before)

				_, err := handler(request)

				runtimestats.ReadMemStats(&after)
				if taken := after.TotalAlloc - before.TotalAlloc; taken > limit*2*size {
					t.Errorf("%d bytes of objects took %d bytes", 2*size, taken)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestUnexpectedRequests(t *testing.T) {
	good := newWebApp(map[string]any{"replicas": int64(1), "image": "quay.io/any/image"})
	tests := []struct {
		name   string
		change func(*admissionv1.AdmissionRequest)
		fails  bool
	}{
		{name: "deletion", change: func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.OldObject, r.Object = admissionv1.Delete, r.Object, runtime.RawExtension{}
		}},
		{name: "status", change: func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" }},
		{name: "no spec", change: func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`{"metadata":{"name":"web"}}`) }},
		{name: "another resource", fails: true, change: func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "pods" }},
		{name: "no object", fails: true, change: func(r *admissionv1.AdmissionRequest) { r.Object.Raw = nil }},
		{name: "a spec above any that the CRD admits", fails: true, change: func(r *admissionv1.AdmissionRequest) {
			r.Object.Raw = []byte(`{"spec":{"image":"` + strings.Repeat("x", 64<<10) + `"}}`)
		}},
		{name: "no labels", change: func(r *admissionv1.AdmissionRequest) {
			r.Object.Raw = []byte(`{"metadata":{"labels":null}}`)
		}},
		{name: "security context of another type", fails: true, change: func(r *admissionv1.AdmissionRequest) {
			r.Object.Raw = []byte(`{"spec":{"image":1,"securityContext":[]}}`)
		}},
	}
	for _, test := range tests {
		for path, handler := range handlers(t, "docker.io") {
			t.Run(test.name+" "+path, func(t *testing.T) {
				request := requestOf(t, good, nil)
				test.change(request)

				response, err := handler(request)

				if (err != nil) != test.fails || response.Denied != "" {
					t.Errorf("denied with %q, %v", response.Denied, err)
				}
			})
		}
	}
}
