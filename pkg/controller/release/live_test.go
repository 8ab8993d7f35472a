// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/releaseworld"
)

// live runs the controller of Shops on its queue, in a synctest bubble, and creates the Shop "a".
// The first calls of Execute fail with the failures.
func live(t *testing.T, play func(t *testing.T, w *world), failures ...error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.engine.Failures = failures
		w.engine.Unsubscribe()
		w.informer = shopInformer(t, w.client)
		w.build(w.chart, clock.RealClock{})
		_, lead := ktesting.NewTestContext(t)
		stop, end := context.WithCancel(lead)
		var running sync.WaitGroup
		running.Go(func() {
			if err := releaseworld.WithInformers(w.loop.Run, w.informer)(stop, lead); err != nil {
				t.Errorf("Run returned %v", err)
			}
		})
		defer running.Wait()
		defer end()
		advance(time.Second)
		w.create(newShop("a"))
		settle()
		play(t, w)
	})
}

// advance lets time pass, and waits until all goroutines are blocked.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// settle waits until all events are handled.
func settle() { advance(10 * time.Millisecond) }

func TestProgressingStatusIsDelayed(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		w.calls.Take()
		w.engine.Mutate(keyOf("a"), releasetest.SetHealth("InProgress", "Available: 0/1", 0))
		w.engine.Publish(keyOf("a"), helm.HealthChanged)
		settle()
		expect.Equal(t, "requests at first", []string(nil), w.calls.Take())
		advance(release.SettleTime)
		settle()
		expect.Equal(t, "requests after the delay", []string{"apply shops/status a"}, w.calls.Take())
		expect.Equal(t, "Ready", "False Progressing", w.conditions("a")["Ready"])
	})
}

func TestRefusedInstallIsNotRetriedOnEvents(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		expect.Equal(t, "Stalled", "True Refused", w.conditions("a")["Stalled"])
		w.calls.Take()
		for range 5 {
			w.engine.Publish(keyOf("a"), helm.ObjectChanged)
			w.engine.Publish(keyOf("a"), helm.HealthChanged)
			settle()
		}
		expect.Equal(t, "requests on events", []string(nil), w.calls.Take())
		advance(release.RefusedRetry * 11 / 10)
		settle()
		expect.Equal(t, "requests after the retry delay", []string{"Install a Failed", "apply shops/status a"}, w.calls.Take())
		expect.Equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
		expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonRetryAfterFailure, w.shop("a").Status.LastUpgradeReason)
	}, &helm.RefusedError{Err: errPlain})
}

func TestFailureIsRetried(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		expect.Equal(t, "Ready at first", "False InstallFailed", w.conditions("a")["Ready"])
		advance(time.Minute)
		settle()
		expect.Equal(t, "Ready in the end", "True Healthy", w.conditions("a")["Ready"])
		expect.Equal(t, "revision", int64(1), w.shop("a").Status.DeployedRelease.Revision)
		expect.Equal(t, "number of events", 2, len(w.recorder.All()))
	}, errPlain, errPlain, errPlain)
}
