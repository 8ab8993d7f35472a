// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

// abandonGrace is the time that workers have to return after the shutdown timeout has canceled
// their contexts.
const abandonGrace = 2 * time.Second

// errWorkersLeft means that workers are still running after supervise has returned. The lease must
// then not be released, because only the exit of the process ends these workers.
var errWorkersLeft = errors.New("workers are still running")

// errShutdownTimeout is the cause of the end of lead when work in flight exceeds the shutdown
// timeout.
var errShutdownTimeout = errors.New("work in flight was not finished")

// supervise runs the controllers that it receives from added, until stop or lead ends or a
// controller fails.
//
// After the end of stop, and after a failure, supervise waits for the work in flight, up to
// shutdownTimeout. It then ends the lead of the controllers and waits for abandonGrace. If the
// lease is lost first, supervise waits until the end of the leaseLostError.
func (p *process) supervise(stop, lead context.Context, added <-chan []Controller) error {
	stop, halt := context.WithCancel(stop)
	defer halt()
	lead, abandon := context.WithCancelCause(lead)
	defer abandon(nil)

	// After supervise has returned, a controller must not block on returned.
	returned, left := make(chan error), make(chan struct{})
	defer close(left)
	var (
		errs            []error
		stopped, ended  = stop.Done(), lead.Done()
		overrun, giveUp <-chan time.Time
		grace           = abandonGrace
		working         int
	)
	// Without controllers, wait until stop or lead ends.
	for working > 0 || (stopped != nil && ended != nil) {
		select {
		case controllers := <-added:
			for _, c := range controllers {
				working++
				go func() {
					err := runController(stop, lead, c)
					select {
					case returned <- err:
					case <-left:
					}
				}()
			}
		case err := <-returned:
			working--
			if errors.Is(err, errWorkersLeft) {
				abandon(err) // Work on a lost shard is in flight. Only the exit of the process ends it.
			}
			// After the end of lead, its cause is more specific than the errors of the controllers.
			if err != nil && lead.Err() == nil {
				errs = append(errs, err)
				halt()
			}
		case <-stopped:
			stopped, added = nil, nil
			klog.FromContext(stop).Info("Stopping: waiting for work in flight", "timeout", p.shutdownTimeout)
			overrun = time.After(p.shutdownTimeout)
		case <-overrun:
			abandon(fmt.Errorf("%w after %v (--shutdown-timeout)", errShutdownTimeout, p.shutdownTimeout))
		case <-ended:
			if loss := (*leaseLostError)(nil); errors.As(context.Cause(lead), &loss) {
				// Another leader may be at work after the end. Only the exit of the process ends
				// operations in flight.
				grace = time.Until(loss.end)
			}
			ended, overrun, added = nil, nil, nil
			giveUp = time.After(grace)
		case <-giveUp:
			return errors.Join(append(errs, context.Cause(lead), errWorkersLeft)...)
		}
	}
	return errors.Join(append(errs, context.Cause(lead))...)
}

// runController runs c and adds its name to its error.
func runController(stop, lead context.Context, c Controller) error {
	err := c.Run(stop, lead)
	if err == nil && stop.Err() == nil {
		err = errEndedEarly
	}
	if err != nil {
		return fmt.Errorf("controller %s: %w", c.Name, err)
	}
	return nil
}
