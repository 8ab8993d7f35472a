// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/helm/record"
)

func TestInputDigest(t *testing.T) {
	desired := func(change func(*Release)) Release {
		r := Release{
			Namespace: "default", Name: "web",
			Chart:  testChart(t, map[string]string{"templates/a.yaml": configMap("a", "1")}),
			Values: map[string]any{"a": 1, "b": map[string]any{"c": []any{"x", true}}},
			Owner:  &metav1.OwnerReference{APIVersion: "demo.example.com/v1alpha1", Kind: "DemoApp", Name: "web", UID: "1"},
		}
		change(&r)
		return r
	}
	digest := func(r Release) string {
		got, err := r.InputDigest()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	unchanged := digest(desired(func(*Release) {}))
	tests := map[string]struct {
		change func(*Release)
		same   bool
	}{
		"the same again": {func(*Release) {}, true},
		"values of another Go type": {func(r *Release) {
			r.Values = map[string]any{"b": map[string]any{"c": []string{"x"}}}
			r.Values = map[string]any{"b": map[string]any{"c": []any{"x", true}}, "a": int64(1)}
		}, true},
		"another value":                      {func(r *Release) { r.Values["a"] = 2 }, false},
		"a value of a value":                 {func(r *Release) { r.Values["b"] = map[string]any{"c": []any{"x", false}} }, false},
		"a value less":                       {func(r *Release) { delete(r.Values, "a") }, false},
		"a string for a number":              {func(r *Release) { r.Values["a"] = "1" }, false},
		"another name":                       {func(r *Release) { r.Name = "web2" }, false},
		"another namespace":                  {func(r *Release) { r.Namespace = "other" }, false},
		"another owner":                      {func(r *Release) { r.Owner.UID = "2" }, false},
		"another kind of owner":              {func(r *Release) { r.Owner.Controller = ptr.To(true) }, false},
		"no owner":                           {func(r *Release) { r.Owner = nil }, false},
		"another version of the owner's API": {func(r *Release) { r.Owner.APIVersion = "demo.example.com/v1" }, true},
		"another group of the owner":         {func(r *Release) { r.Owner.APIVersion = "example.com/v1alpha1" }, false},
		"another chart": {func(r *Release) {
			r.Chart = testChart(t, map[string]string{"templates/a.yaml": configMap("a", "2")})
		}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := digest(desired(tc.change)); (got == unchanged) != tc.same {
				t.Errorf("digest = %q, unchanged is %q, want same %t", got, unchanged, tc.same)
			}
		})
	}
	t.Run("recognizes the digest of an earlier engine", func(t *testing.T) {
		r := desired(func(*Release) {})
		earlier, err := r.inputDigest()
		if err != nil || earlier == unchanged {
			t.Fatalf("earlier digest is %q, %v", earlier, err)
		}
		for name, tc := range map[string]struct{ made, want record.Record }{
			"deployed":    {record.Record{Own: true, Inputs: earlier}, record.Record{Own: true, Inputs: unchanged}},
			"rolled back": {record.Record{Own: true, Inputs: "older", RolledBackTo: 1, Abandoned: earlier}, record.Record{Own: true, Inputs: "older", RolledBackTo: 1, Abandoned: unchanged}},
			"others":      {record.Record{Own: true, Inputs: "others"}, record.Record{Own: true, Inputs: "others"}},
		} {
			if diff := cmp.Diff(&tc.want, r.Recognize(Snapshot{Record: &tc.made}).Record); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
	t.Run("fits into a label with any revision", func(t *testing.T) {
		if errs := validation.IsValidLabelValue(record.InputsValue(math.MaxInt32, unchanged, "0123456789abcdef") + record.FailedMark); len(errs) > 0 {
			t.Error(errs)
		}
	})
	t.Run("fits into the label of a rollback", func(t *testing.T) {
		if errs := validation.IsValidLabelValue(record.RollbackValue(math.MaxInt32, math.MaxInt32, unchanged)); len(errs) > 0 {
			t.Error(errs)
		}
	})
	t.Run("fits into the labels of a rollback to what another client made", func(t *testing.T) {
		for _, value := range []string{record.InputsValue(3, "", ""), record.RollbackValue(3, 1, ""), record.InputsValue(3, "", "") + record.FailedMark} {
			if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
				t.Error(value, errs)
			}
		}
	})
	t.Run("values that are no JSON", func(t *testing.T) {
		if got, err := desired(func(r *Release) { r.Values["a"] = math.NaN() }).InputDigest(); err == nil {
			t.Errorf("digest = %q, want an error", got)
		}
	})
}
