// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releaseworld

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/controllertest/passlog"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// World is a fake API server, and a process with an engine and a controller. Start and Stop are the
// start and the end of the process; the server stays.
type World struct {
	*fakeapi.Server

	T *testing.T
	// Engine, Client and Recorder belong to the process. Start replaces them.
	Engine   *helm.Engine
	Client   dynamic.Interface
	Recorder *controllertest.Recorder
	// Stop ends the process, and waits for its end.
	Stop func()
	// Log has the log of the process. Bubble checks it at the end of the test.
	Log passlog.Recorder
}

// Run runs a controller until stop or lead ends, see [controller.Controller.Run].
type Run func(stop, lead context.Context) error

// Bubble runs a test in a synctest bubble. At its end, it checks the log of the process.
func Bubble(t *testing.T, test func(*World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &World{Server: fakeapi.New(t), T: t, Stop: func() {}}
		test(w)
		w.Log.Check(t)
	})
}

// Start starts an engine, and the controller that build returns. build may use the fields of w.
func (w *World) Start(build func() (Run, error)) {
	w.T.Helper()
	var err error
	w.Recorder = &controllertest.Recorder{}
	w.Engine, err = helm.New(helm.Config{
		RESTConfig: w.RESTConfig(), HTTPClient: w.HTTPClient(), Logger: slog.New(slog.DiscardHandler),
		LoggerFor: func(ctx context.Context) *slog.Logger { return slog.New(logr.ToSlogHandler(klog.FromContext(ctx))) },
	})
	expect.NoError(w.T, err)
	w.Client, err = dynamic.NewForConfigAndClient(w.RESTConfig(), w.HTTPClient())
	expect.NoError(w.T, err)
	run, err := build()
	expect.NoError(w.T, err)
	lead := w.Log.Context(context.WithoutCancel(w.T.Context()))
	ctx, cancel := context.WithCancel(lead)
	var running sync.WaitGroup
	running.Go(func() { w.Engine.Run(ctx) })
	running.Go(func() {
		if err := run(ctx, lead); err != nil {
			w.T.Errorf("Run: %v", err)
		}
	})
	w.Stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	w.T.Cleanup(w.Stop)
	w.Settle()
}

// Settle waits until held statuses are written and nothing moves any more.
func (w *World) Settle() { w.Wait(5 * time.Second) }

// Wait advances the time, and waits until nothing moves any more.
func (w *World) Wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// WithInformers returns a run that also runs informers, until after the controller.
func WithInformers(run Run, informers ...cache.SharedIndexInformer) Run {
	return func(stop, lead context.Context) error {
		watching, unwatch := context.WithCancel(context.WithoutCancel(lead))
		var running sync.WaitGroup
		defer running.Wait()
		defer unwatch()
		for _, informer := range informers {
			running.Go(func() { informer.RunWithContext(watching) })
		}
		return run(stop, lead)
	}
}
