// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/example/demoapp-controller/pkg/ssa"
)

// Commit calls apply if two statuses are semantically different: observed, from the
// start of a pass, and desired, from its end. It returns the object from apply, and
// whether apply wrote.
//
// Call Commit on the error path of a pass too, and join the errors. A write to an
// object that is gone (404), given by its name, is not an error. Any other error wraps the error of
// apply, so that apierrors.IsConflict still recognizes a conflict.
func Commit[S, T any](
	ctx context.Context, name string, observed, desired S, apply func(context.Context) (T, error),
) (written T, wrote bool, err error) {
	var none T
	if apiequality.Semantic.DeepEqual(observed, desired) {
		return none, false, nil
	}
	written, err = apply(ctx)
	switch {
	case ssa.IsGone(err, name):
		return none, false, nil
	case err != nil:
		return none, false, fmt.Errorf("write status: %w", err)
	default:
		return written, true, nil
	}
}
