// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// OwnershipConflictError means that an object with a child's name belongs to another owner. The
// object was not changed.
type OwnershipConflictError = ssa.OwnershipConflictError

// RefusedError means that the API server refused a child. The same child will be refused again.
type RefusedError = ssa.RefusedError

// Named returns the reference of a child in errors.
func Named(kind, name string) ssa.ObjectReference { return ssa.ObjectReference{Kind: kind, Name: name} }

// DeleteOrRename is the remedy of a conflict between a child and another object.
const DeleteOrRename = "delete or rename one of the two"

// secretKind is the kind whose values must not appear in errors.
const secretKind = "Secret"

// applyError returns the error of an apply of a child. A refused child is terminal, because only a
// change of the desired state can make it valid.
func applyError(err error) error {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return controller.Terminal(err)
	}
	return err
}

// writeError classifies the error of another request for a child.
func writeError(child id, err error) error {
	object := Named(child.kind, child.name)
	if ssa.WillRefuseAgain(err) {
		return controller.Terminal(&RefusedError{Object: object, Err: err})
	}
	if child.kind == secretKind {
		err = ssa.Withheld(err)
	}
	return fmt.Errorf("%s: %w", object, err)
}
