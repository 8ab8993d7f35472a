// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"context"
	"errors"
	"sync"
)

// maxFailures is the number of failed calls after which no further call is made. One object that
// cannot be written must not block the remaining objects, but a failing API server must not get all
// requests.
const maxFailures = 3

// inBatches calls write for 0 to count-1 and waits for all calls. A batch of concurrent calls
// begins with one call and doubles after each success, up to parallel calls. After a failure, the
// size is one again. No batch starts after the third failure, or after the end of ctx. inBatches
// returns the joined errors.
func inBatches(ctx context.Context, count, parallel int, write func(ctx context.Context, i int) error) error {
	var failures []error
	for begin, size := 0, 1; begin < count && len(failures) < maxFailures; {
		if ctx.Err() != nil {
			return errors.Join(append(failures, context.Cause(ctx))...)
		}
		end := min(begin+size, count)
		errs := make([]error, end-begin)
		var batch sync.WaitGroup
		for i := begin; i < end; i++ {
			batch.Go(func() { errs[i-begin] = write(ctx, i) })
		}
		batch.Wait()
		begin, size = end, min(size*2, parallel)
		for _, err := range errs {
			if err != nil {
				failures, size = append(failures, err), 1
			}
		}
	}
	return errors.Join(failures...)
}
