// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// object parses a manifest.
func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestPrepare(t *testing.T) {
	tests := map[string]struct {
		manifest string
		want     string // Empty means equal to the manifest.
	}{
		"stringData becomes data": {
			manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {key: geheim, empty: ''}}",
			want:     "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: Z2VoZWlt, empty: ''}}",
		},
		"stringData comes before data": {
			manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: b2xk, other: b2xk}, stringData: {key: geheim}}",
			want:     "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: Z2VoZWlt, other: b2xk}}",
		},
		"empty stringData": {
			manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {}}",
			want:     "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {}}",
		},
		"only data": {
			manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: Z2VoZWlt}}",
			want:     "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: Z2VoZWlt}}",
		},
		"a Secret of another API group": {
			manifest: "{apiVersion: example.com/v1, kind: Secret, metadata: {name: a}, stringData: {key: geheim}}",
			want:     "{apiVersion: example.com/v1, kind: Secret, metadata: {name: a}, stringData: {key: geheim}}",
		},
		"an aggregated ClusterRole": {
			manifest: "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, aggregationRule: {}, rules: []}",
			want:     "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, aggregationRule: {}}",
		},
		"a ClusterRole with rules": {
			manifest: "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, rules: []}",
		},
		"a status": {
			manifest: "{apiVersion: example.com/v1, kind: Probe, metadata: {name: a}, spec: {size: 1}, status: {phase: New}}",
			want:     "{apiVersion: example.com/v1, kind: Probe, metadata: {name: a}, spec: {size: 1}}",
		},
		"another kind": {
			manifest: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {key: value}}",
			want:     "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {key: value}}",
		},
		"stringData beside null": {
			manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: null, stringData: {key: geheim}}",
			want:     "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: Z2VoZWlt}}",
		},
		"null in stringData": {
			manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: b2xk}, stringData: {key: null, other: geheim}}",
			want:     "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: '', other: Z2VoZWlt}}",
		},
		"stringData is null":    {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: b2xk}, stringData: null}"},
		"data is null":          {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: null}"},
		"both are null":         {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: null, stringData: null}"},
		"null in data":          {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: null}}"},
		"stringData of numbers": {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {b: b2xk}, stringData: {a: a, key: 1}}"},
		"stringData is no map":  {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: [a]}"},
		"data is no map":        {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: x, stringData: {key: a}}"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			given := object(t, tc.manifest)
			before := given.DeepCopy()
			got := Prepare(given)
			if diff := cmp.Diff(before, given); diff != "" {
				t.Errorf("the manifest's own object was changed (-before +after):\n%s", diff)
			}
			want := before
			if tc.want != "" {
				want = object(t, tc.want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("prepared (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequest(t *testing.T) {
	tests := map[string]struct {
		mode     Mode
		uid      types.UID
		metadata map[string]any
		force    bool
	}{
		"create only":            {Create, "", map[string]any{"name": "a", "resourceVersion": "1"}, true},
		"forced":                 {Force, "", map[string]any{"name": "a"}, true},
		"forced, of one object":  {Force, "u", map[string]any{"name": "a", "uid": "u"}, true},
		"keeps fields of others": {Keep, "", map[string]any{"name": "a"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			given := object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
			before := given.DeepCopy()

			data, options, err := Request(given, "ours", tc.mode, tc.uid)
			if err != nil {
				t.Fatal(err)
			}
			var sent map[string]any
			if err := json.Unmarshal(data, &sent); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.metadata, sent["metadata"]); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			want := metav1.PatchOptions{FieldManager: "ours", Force: &tc.force, FieldValidation: metav1.FieldValidationStrict}
			if diff := cmp.Diff(want, options); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, given); diff != "" {
				t.Errorf("the given object was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestIsOtherObject(t *testing.T) {
	resource := schema.GroupResource{Resource: "services"}
	for want, errs := range map[bool][]error{
		true:  {apierrors.NewConflict(resource, "a", nil), invalid()},
		false: {nil, apierrors.NewNotFound(resource, "a"), apierrors.NewBadRequest("no")},
	} {
		for _, err := range errs {
			if got := IsOtherObject(err); got != want {
				t.Errorf("IsOtherObject(%v) = %t, want %t", err, got, want)
			}
		}
	}
}

func TestIsReplaced(t *testing.T) {
	resource := schema.GroupResource{Resource: "services"}
	uid := field.Invalid(field.NewPath("metadata", "uid"), "new", "field is immutable")
	port := field.Invalid(field.NewPath("spec", "ports").Index(0).Child("port"), 0, "must be between 1 and 65535")
	tests := map[string]struct {
		err  error
		want bool
	}{
		"nothing":               {nil, false},
		"another error":         {errors.New("metadata.uid"), false},
		"the UID":               {invalid(uid), true},
		"the UID, wrapped":      {fmt.Errorf("Service: %w", invalid(uid)), true},
		"the UID and a field":   {invalid(port, uid), true},
		"a field":               {invalid(port), false},
		"no field":              {invalid(), false},
		"no details":            {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid}}, false},
		"a conflict, of absent": {apierrors.NewConflict(resource, "a", nil), false},
		"not found":             {apierrors.NewNotFound(resource, "a"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := IsReplaced(test.err); got != test.want {
				t.Errorf("IsReplaced(%v) = %t, want %t", test.err, got, test.want)
			}
		})
	}
}
