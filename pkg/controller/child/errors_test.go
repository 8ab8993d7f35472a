// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestErrorsOfSecretsHaveNoValues covers each answer that may repeat values of the Secret.
func TestErrorsOfSecretsHaveNoValues(t *testing.T) {
	const value = "hunter2"
	secrets := schema.GroupResource{Resource: "secrets"}
	invalid := field.ErrorList{field.Invalid(field.NewPath("data"), value, "must not be "+value)}
	terminating := apierrors.NewForbidden(secrets, "db", errors.New("the namespace is being terminated: "+value))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	isTerminating := func(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }
	tests := []struct {
		name string
		err  error
		is   func(error) bool
		want string
	}{
		{"terminating namespace", terminating, isTerminating, "Forbidden"},
		{"admission", apierrors.NewForbidden(secrets, "db", errors.New("denied: "+value)), apierrors.IsForbidden, "Forbidden"},
		{"validation", apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "db", invalid), apierrors.IsInvalid, "Invalid"},
		{"bad request", apierrors.NewBadRequest(value), apierrors.IsBadRequest, "BadRequest"},
		{"connection", io.ErrUnexpectedEOF, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }, "unexpected EOF"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := writeError(id{"Secret", "db"}, test.err)

			if text := err.Error(); strings.Contains(text, value) || !strings.Contains(text, test.want) || !strings.Contains(text, `Secret "db"`) {
				t.Errorf("the error is %q", text)
			}
			if !test.is(err) {
				t.Errorf("%v does not wrap the answer", err)
			}
		})
	}
}

// TestLabelsOfWrongType: a label that is not a string is an error, because the remaining labels
// would be lost.
func TestLabelsOfWrongType(t *testing.T) {
	labels := map[string]any{"a": "text", "b": 1}
	child := Untyped{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "web", "labels": labels}}

	_, err := Render(&metav1.ObjectMeta{Name: "owner"}, schema.GroupVersionKind{}, child)

	if err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("error is %v, want one that names the label", err)
	}
}
