// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// apiServer answers each patch with the next error, or with an object.
type apiServer struct {
	object map[string]any
	errs   []error
	// undeclared are the paths of fields that the schema does not have.
	undeclared []string

	patches, merges []string
}

// RoundTrip implements http.RoundTripper.
func (a *apiServer) RoundTrip(request *http.Request) (*http.Response, error) {
	data, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	a.patches = append(a.patches, string(data))
	if request.Header.Get("Content-Type") == string(types.MergePatchType) {
		a.merges = append(a.merges, string(data))
	}
	code, answer := http.StatusOK, any(a.object)
	refusal := error(nil)
	if len(a.errs) > 0 {
		refusal, a.errs = a.errs[0], a.errs[1:]
	}
	switch declared, changed, err := a.declared(data); {
	case err != nil:
		return nil, err
	case request.URL.Query().Has("dryRun"):
		answer = declared
	case changed && refusal == nil:
		refusal = unexplained
	}
	if refusal != nil {
		status := apierrors.NewInternalError(refusal).Status()
		if known := apierrors.APIStatus(nil); errors.As(refusal, &known) {
			status = known.Status()
		}
		status.Kind, status.APIVersion = "Status", "v1"
		code, answer = int(status.Code), status
	}
	body, err := json.Marshal(answer)
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(bytes.NewReader(body)), Request: request}, err
}

// declared returns a sent object without undeclared fields, and whether it had any.
func (a *apiServer) declared(data []byte) (object map[string]any, changed bool, _ error) {
	var sent map[string]any
	if err := errors.Join(json.Unmarshal(data, &object), json.Unmarshal(data, &sent)); err != nil {
		return nil, false, err
	}
	for _, path := range a.undeclared {
		remove(object, strings.Split(path, "."))
	}
	return object, !reflect.DeepEqual(sent, object), nil
}

// patcher returns a patcher that sends its patches to a.
func (a *apiServer) patcher(t *testing.T) Patcher {
	t.Helper()
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	client, err := NewClient(&rest.Config{Host: "http://fake.invalid"}, &http.Client{Transport: a}, version.WithKind("App"), version.WithResource("apps"), []string{"kept"})
	if err != nil {
		t.Fatal(err)
	}
	return client.In("default")
}

// TestPatcherRemovesLeftovers: after a status is applied, the fields of an upstream operator are
// removed from it, with one request.
func TestPatcherRemovesLeftovers(t *testing.T) {
	const version = `{"metadata":{"resourceVersion":"7","uid":"1"},"status":`
	condition := func(name string) map[string]any { return map[string]any{"type": name, "status": "True"} }
	tests := map[string]struct {
		applied     string
		stored      map[string]any
		subresource string
		merge       string
	}{
		"nothing": {
			applied: `{"status": {"conditions": [{"type": "Ready"}]}}`,
			stored:  map[string]any{"conditions": []any{condition("Ready"), condition("Backed")}, "note": "of others"},
		},
		"manifest": {
			applied: `{"status": {"deployedRelease": {"name": "a"}}}`,
			stored:  map[string]any{"deployedRelease": map[string]any{"name": "a", "manifest": "kind: Secret"}},
			merge:   version + `{"deployedRelease":{"manifest":null}}}`,
		},
		"own manifest": {
			applied: `{"status": {"deployedRelease": {"manifest": "kind: Secret"}}}`,
			stored:  map[string]any{"deployedRelease": map[string]any{"manifest": "kind: Secret"}},
		},
		"conditions of a keyed list": {
			applied: `{"status": {"conditions": [{"type": "Ready"}]}}`,
			stored:  map[string]any{"conditions": []any{condition("ReleaseFailed"), condition("Ready"), condition("Backed"), condition("Paused")}},
			merge:   version + `{"conditions":[{"status":"True","type":"Ready"},{"status":"True","type":"Backed"}]}}`,
		},
		"another request": {
			applied:     `{"metadata": {}}`,
			stored:      map[string]any{"deployedRelease": map[string]any{"manifest": "kind: Secret"}},
			subresource: "scale",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := &apiServer{object: map[string]any{
				"apiVersion": "example.com/v1", "kind": "App", "metadata": map[string]any{"name": "a", "uid": "1", "resourceVersion": "7"}, "status": test.stored,
			}}
			subresource := test.subresource
			if subresource == "" {
				subresource = "status"
			}

			_, err := server.patcher(t).Patch(t.Context(), "a", types.ApplyPatchType, []byte(test.applied), metav1.PatchOptions{}, subresource)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if test.merge != "" {
				want = []string{test.merge}
			}
			if diff := cmp.Diff(want, server.merges); diff != "" {
				t.Errorf("merge patches (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPatched: a patch returns the part of the answer that an informer caches.
func TestPatched(t *testing.T) {
	server := &apiServer{object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "App", "spec": map[string]any{"size": 3},
		"metadata": map[string]any{"name": "a", "annotations": map[string]any{"kept": "1", "other": "2"}, "labels": map[string]any{"a": "b"}},
	}}

	r, err := server.patcher(t).Patch(t.Context(), "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}

	want := metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"kept": "1"}}
	if diff := cmp.Diff(want, r.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	content, err := r.Content()
	if err != nil || r.Kind != "App" || content.GetAnnotations()["other"] != "2" {
		t.Errorf("content of %s is %v, %v", r.Kind, content, err)
	}
}
