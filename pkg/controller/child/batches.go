// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"sync"
)

// maxFailures is how many calls may fail before no further one is made. One object
// that cannot be written must not keep all others from it, and an API server that
// takes none must not be asked for all.
const maxFailures = 3

// InBatches calls write for 0 to count-1 and waits for all calls. The batches grow
// from one call to twice as many each time, up to parallel at once, and begin again
// with one after a failure. None is begun after the third failure, nor after the
// end of ctx. It returns the errors, joined.
func InBatches(ctx context.Context, count, parallel int, write func(ctx context.Context, i int) error) error {
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
