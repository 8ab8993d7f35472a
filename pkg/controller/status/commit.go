// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Commit calls apply when desired differs in meaning from observed, both of
// them the status of an object: as read at the start of a pass, and as the
// pass leaves it. It returns what apply wrote, and whether it wrote.
//
// Call it on the error path of a pass too, and join the errors. A write to an
// object that is gone (404) counts as nothing to write. Any other error wraps
// that of apply, so that a conflict is still known as one.
func Commit[S, T any](
	ctx context.Context, observed, desired S, apply func(context.Context) (T, error),
) (written T, wrote bool, err error) {
	var none T
	if apiequality.Semantic.DeepEqual(observed, desired) {
		return none, false, nil
	}
	written, err = apply(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return none, false, nil
	case err != nil:
		return none, false, fmt.Errorf("write status: %w", err)
	default:
		return written, true, nil
	}
}
