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

// abandonGrace is the time that workers get to return after the shutdown timeout has told them to drop everything.
const abandonGrace = 2 * time.Second

// errWorkersLeft marks the error of a supervise that has left workers behind: they still act, so the lease must not be
// released, and only the end of the process ends them.
var errWorkersLeft = errors.New("workers are still running")

// errShutdownTimeout is why lead ends when work in flight takes too long.
var errShutdownTimeout = errors.New("work in flight was not finished")

// supervise runs the controllers that arrive on added until stop ends, and waits for them: as long as shutdownTimeout for
// work in flight, then it ends their lead and grants another two seconds. When lead ends by itself it waits for
// lostLeaseGrace. When one controller fails, all are stopped in the same way.
func (p *process) supervise(stop, lead context.Context, added <-chan []Controller) error {
	stop, halt := context.WithCancel(stop)
	defer halt()
	lead, abandon := context.WithCancelCause(lead)
	defer abandon(nil)

	// A controller that is left behind has nobody to report to.
	returned, left := make(chan error), make(chan struct{})
	defer close(left)
	var (
		errs            []error
		stopped, ended  = stop.Done(), lead.Done()
		overrun, giveUp <-chan time.Time
		grace           = p.lostLeaseGrace
		working         int
	)
	// Without controllers there is still something to wait for.
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
			// After the end of lead its cause tells more than what controllers make of it.
			if err != nil && lead.Err() == nil {
				errs = append(errs, err)
				halt()
			}
		case <-stopped:
			stopped, added = nil, nil
			klog.FromContext(stop).Info("Stopping: waiting for work in flight", "timeout", p.shutdownTimeout)
			overrun = time.After(p.shutdownTimeout)
		case <-overrun:
			grace = abandonGrace
			abandon(fmt.Errorf("%w after %v (--shutdown-timeout)", errShutdownTimeout, p.shutdownTimeout))
		case <-ended:
			ended, overrun, added = nil, nil, nil
			giveUp = time.After(grace)
		case <-giveUp:
			return errors.Join(append(errs, context.Cause(lead), errWorkersLeft)...)
		}
	}
	return errors.Join(append(errs, context.Cause(lead))...)
}

// runController runs c and names it in its errors.
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
