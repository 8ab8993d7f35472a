// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
)

// serviceStopTimeout bounds the wait for one service to stop.
const serviceStopTimeout = 3 * time.Second

// Service is a part of the process that runs on standbys too, and that stops after the workers. Run
// must return soon after the end of ctx, when all its goroutines have ended. If Run returns
// earlier, the process stops.
type Service struct {
	Name string
	Run  func(ctx context.Context) error
}

// serviceError is the error of a service or a kind, with its name.
type serviceError struct {
	name string
	err  error
}

// Error implements error.
func (e *serviceError) Error() string { return e.name + ": " + e.err.Error() }

// Unwrap returns the error of the service.
func (e *serviceError) Unwrap() error { return e.err }

// errEndedEarly is the error of a service or a controller that returned before the end of its
// context.
var errEndedEarly = errors.New("ended unexpectedly")

// serviceStack runs services and stops them in the reverse order of their start.
type serviceStack struct {
	// fail is called with a serviceError when a service fails.
	fail    context.CancelCauseFunc
	running []runningService
}

type runningService struct {
	name  string
	stop  context.CancelFunc
	ended <-chan struct{}
}

// start starts services in order. Each service runs until stopAll stops it.
func (s *serviceStack) start(ctx context.Context, services ...Service) {
	for _, svc := range services {
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		s.running = append(s.running, runningService{name: svc.Name, stop: stop, ended: ended})
		go func() {
			defer close(ended)
			err := svc.Run(ctx)
			switch {
			case ctx.Err() == nil && err == nil:
				s.fail(&serviceError{svc.Name, errEndedEarly})
			case ctx.Err() == nil:
				s.fail(&serviceError{svc.Name, err})
			case err != nil && !errors.Is(err, context.Canceled):
				klog.FromContext(ctx).Error(err, "Stopping a service failed", "service", svc.Name)
			}
		}()
	}
}

// stopAll stops the services one after another, in the reverse order of their start.
func (s *serviceStack) stopAll(ctx context.Context) {
	for i := len(s.running) - 1; i >= 0; i-- {
		svc := s.running[i]
		svc.stop()
		late := time.NewTimer(serviceStopTimeout)
		select {
		case <-svc.ended:
		case <-late.C:
			// The service ends with the process, which exits next.
			klog.FromContext(ctx).Error(nil, "A service did not stop in time", "service", svc.name, "after", serviceStopTimeout)
		}
		late.Stop()
	}
}
