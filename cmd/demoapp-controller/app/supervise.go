// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

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

// supervise runs controllers until stop ends, and waits for them: as long as shutdownTimeout for work in flight, then
// it ends their lead and grants another two seconds. When lead ends by itself it waits for lostLeaseGrace. When one
// controller fails, all are stopped in the same way.
func (p *process) supervise(stop, lead context.Context, controllers []Named) error {
	logger := klog.FromContext(stop)
	stop, halt := context.WithCancel(stop)
	defer halt()
	lead, abandon := context.WithCancelCause(lead)
	defer abandon(nil)

	returned := make(chan error, len(controllers))
	for _, c := range controllers {
		go func() { returned <- runController(stop, lead, c) }()
	}
	var (
		errs             []error
		stopped, lost    = stop.Done(), lead.Done()
		overrun, giveUp  <-chan time.Time
		stillRunning     = len(controllers)
		waitingForTheEnd = true
	)
	for stillRunning > 0 || waitingForTheEnd {
		select {
		case err := <-returned:
			stillRunning--
			if err != nil {
				errs = append(errs, err)
				halt()
			}
		case <-stopped:
			stopped, waitingForTheEnd = nil, false
			logger.Info("Stopping: waiting for work in flight", "timeout", p.shutdownTimeout)
			overrun = time.After(p.shutdownTimeout)
		case <-lost:
			lost, overrun, waitingForTheEnd = nil, nil, false
			errs = append(errs, context.Cause(lead))
			giveUp = time.After(p.lostLeaseGrace)
		case <-overrun:
			overrun, lost = nil, nil
			abandon(errShutdownTimeout)
			errs = append(errs, fmt.Errorf("%w after %v (--shutdown-timeout)", errShutdownTimeout, p.shutdownTimeout))
			giveUp = time.After(abandonGrace)
		case <-giveUp:
			return errors.Join(append(errs, errWorkersLeft)...)
		}
	}
	return errors.Join(errs...)
}

// errShutdownTimeout is why lead ends when work in flight takes too long.
var errShutdownTimeout = errors.New("work in flight was not finished")

// runController runs c and names it in its errors. The end of lead is told once, by supervise.
func runController(stop, lead context.Context, c Named) error {
	err := c.Run(stop, lead)
	switch {
	case lead.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("controller %s: %w", c.Name, err)
	case stop.Err() == nil:
		return fmt.Errorf("controller %s: %w", c.Name, errEndedEarly)
	default:
		return nil
	}
}
