// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/message"
)

// OwnershipConflictError means that an object with a child's name belongs to another owner. The
// object was not changed.
type OwnershipConflictError struct {
	Kind, Name string
	// Holder describes the owner of the object.
	Holder string
	// Remedy says what a user can do. The default is to delete or rename one of the two objects.
	Remedy string
}

// Error implements error.
func (e *OwnershipConflictError) Error() string {
	return fmt.Sprintf("%s %q exists and belongs to %s: %s", e.Kind, e.Name, e.Holder, cmp.Or(e.Remedy, "delete or rename one of the two"))
}

// RefusedError means that the API server refused a child as invalid. The same child will
// be refused again.
type RefusedError struct {
	Kind, Name string
	Err        error
}

// maxRefusals is the number of fields that the text of a RefusedError names.
const maxRefusals = 3

// Error implements error. It is one line that names the fields, without the values that
// the API server repeats.
func (e *RefusedError) Error() string {
	prefix := fmt.Sprintf("%s %q was refused: ", e.Kind, e.Name)
	if e.Kind == secretKind {
		return prefix + Withheld(e.Err).Error()
	}
	var answer apierrors.APIStatus
	if !errors.As(e.Err, &answer) || answer.Status().Details == nil || len(answer.Status().Details.Causes) == 0 {
		return prefix + message.OneLine(e.Err.Error())
	}
	causes := answer.Status().Details.Causes
	var fields []string
	for _, cause := range causes[:min(len(causes), maxRefusals)] {
		fields = append(fields, cause.Field+": "+reasonIn(cause.Message))
	}
	text := prefix + strings.Join(fields, "; ")
	if more := len(causes) - len(fields); more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// Unwrap returns the API server's answer.
func (e *RefusedError) Unwrap() error { return e.Err }

// reasonIn drops the value from the message of a cause: `Invalid value: {...}: field is
// immutable` becomes `field is immutable`.
func reasonIn(text string) string {
	if strings.HasPrefix(text, "Invalid value: ") || strings.HasPrefix(text, "Duplicate value: ") {
		if i := strings.LastIndex(text, ": "); i > len("Invalid value") {
			text = text[i+2:]
		}
	}
	return message.OneLine(text)
}

// secretKind is the kind whose values must not appear in errors.
const secretKind = "Secret"

// withheldError is an answer of the API server to a write of a Secret.
type withheldError struct{ answer error }

// Error implements error.
func (e *withheldError) Error() string {
	return fmt.Sprintf("the API server answered %s; its message is left out, because it may repeat values of the Secret", apierrors.ReasonForError(e.answer))
}

// Unwrap returns the answer.
func (e *withheldError) Unwrap() error { return e.answer }

// Withheld returns the error of a write of a Secret without the message of the API server or of
// admission, which may repeat values of the Secret. Withheld returns other errors unchanged.
func Withheld(err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return err
	}
	return &withheldError{err}
}

// writeError classifies the answer to a write of a child. An invalid child is terminal, because
// only a change of the desired state can make it valid.
func writeError(child id, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return controller.Terminal(&RefusedError{Kind: child.kind, Name: child.name, Err: err})
	}
	if child.kind == secretKind {
		err = Withheld(err)
	}
	return fmt.Errorf("%s %q: %w", child.kind, child.name, err)
}
