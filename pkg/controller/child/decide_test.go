// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
		owned  ownership
		digest string
		once   bool
		got    *Observed
		want   action
	}{
		"absent":                           {ownerSelf, "d", false, nil, actionCreate},
		"unchanged since the apply":        {ownerSelf, "d", false, live("a", "f"), actionNone},
		"recorded without a time":          {ownerSelf, "d", false, live("a", "f@5"), actionNone},
		"another desired state":            {ownerSelf, "e", false, live("a", "f"), actionUpdate},
		"fields changed by another client": {ownerSelf, "d", false, live("a", "g"), actionUpdate},
		"replaced":                         {ownerSelf, "d", false, live("b", "f"), actionUpdate},
		"being deleted":                    {ownerSelf, "d", false, leaving, actionWait},
		"of a predecessor":                 {ownerPredecessor, "d", false, live("b", "f"), actionWait},
		"of another owner":                 {ownerOther, "d", false, live("a", "f"), actionConflict},
		"without an owner":                 {ownerNone, "d", false, live("b", ""), actionConflict},
		"created once":                     {ownerSelf, "", true, live("a", "g"), actionNone},
		"created once, absent":             {ownerSelf, "", true, nil, actionCreate},
		"created once, by a user":          {ownerNone, "", true, live("b", ""), actionNone},
		"created once, of another owner":   {ownerOther, "", true, live("b", ""), actionConflict},
		"created once, being deleted":      {ownerSelf, "", true, leaving, actionWait},
		"created once, of a predecessor":   {ownerPredecessor, "", true, live("b", ""), actionWait},
		"of another owner, being deleted":  {ownerOther, "d", false, leaving, actionConflict},
		"of a predecessor, being deleted":  {ownerPredecessor, "d", false, leaving, actionWait},
		"without an owner, being deleted":  {ownerNone, "d", false, leaving, actionConflict},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := decide(tc.owned, desiredChild{object: &unstructured.Unstructured{}, digest: tc.digest, once: tc.once}, record, tc.got); got != tc.want {
				t.Errorf("decide = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestRefusedErrorNamesFieldInOneLine(t *testing.T) {
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
			err := &RefusedError{Object: Named("Deployment", "web"), Err: tc.err}
			if want := `Deployment "web" was refused: ` + tc.want; err.Error() != want {
				t.Errorf("text is %q, want %q", err, want)
			}
		})
	}
}
