// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/ssa"
)

func TestDecide(t *testing.T) {
	record := childv1alpha1.AppliedChild{UID: "a", Digest: "d", Fingerprint: "f"}
	live := func(uid, fingerprint string) *Observed {
		got := &Observed{trace: ssa.Trace{Fingerprint: fingerprint}}
		got.UID = types.UID(uid)
		return got
	}
	leaving := live("a", "f")
	leaving.DeletionTimestamp = &metav1.Time{}
	tests := map[string]struct {
		whose  belonging
		digest string
		once   bool
		got    *Observed
		want   action
	}{
		"absent":                            {ours, "d", false, nil, create},
		"as it was applied":                 {ours, "d", false, live("a", "f"), leave},
		"recorded without a time":           {ours, "d", false, live("a", "f@5"), leave},
		"another desired state":             {ours, "e", false, live("a", "f"), change},
		"fields changed by others":          {ours, "d", false, live("a", "g"), change},
		"replaced":                          {ours, "d", false, live("b", "f"), change},
		"being deleted":                     {ours, "d", false, leaving, await},
		"of a predecessor":                  {predecessors, "d", false, live("b", "f"), await},
		"of a stranger":                     {strangers, "d", false, live("a", "f"), refuse},
		"of nobody":                         {unclaimed, "d", false, live("b", ""), refuse},
		"created once":                      {ours, "", true, live("a", "g"), leave},
		"created once, absent":              {ours, "", true, nil, create},
		"created once, provided by a user":  {unclaimed, "", true, live("b", ""), leave},
		"created once, of a stranger":       {strangers, "", true, live("b", ""), refuse},
		"created once, being deleted":       {ours, "", true, leaving, await},
		"created once, of a predecessor":    {predecessors, "", true, live("b", ""), await},
		"of a stranger and being deleted":   {strangers, "d", false, leaving, refuse},
		"of a predecessor, being deleted":   {predecessors, "d", false, leaving, await},
		"of nobody, although being deleted": {unclaimed, "d", false, leaving, refuse},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := decide(tc.whose, desiredChild{digest: tc.digest, once: tc.once}, record, tc.got); got != tc.want {
				t.Errorf("decide = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestRefusedErrorIsOneLineThatNamesTheField(t *testing.T) {
	path := field.NewPath("spec", "selector")
	invalid := func(causes ...*field.Error) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web", causes)
	}
	tests := map[string]struct {
		err  error
		want string
	}{
		"an immutable field": {
			invalid(field.Invalid(path, map[string]string{"a": "b: c"}, "field is immutable")), "spec.selector: field is immutable",
		},
		"a missing field":     {invalid(field.Required(path, "")), "spec.selector: Required value"},
		"no causes":           {apierrors.NewBadRequest("strict decoding error:\n unknown field"), "strict decoding error: unknown field"},
		"no answer of an API": {errors.New("a\nb"), "a b"},
		"many": {
			invalid(field.Required(path, ""), field.Required(path, ""), field.Required(path, ""), field.Required(path, "")),
			"spec.selector: Required value; spec.selector: Required value; spec.selector: Required value (and 1 more)",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := &RefusedError{Kind: "Deployment", Name: "web", Err: tc.err}
			if want := `Deployment "web" was refused: ` + tc.want; err.Error() != want {
				t.Errorf("text is %q, want %q", err, want)
			}
		})
	}
}
