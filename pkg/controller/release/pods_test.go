// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/test/expect"
)

// looksAtPods makes the passes that the controller asks for, and returns the times of those that
// look at pods, in seconds.
func (w *world) looksAtPods(name string, until time.Duration) []int {
	w.t.Helper()
	var looks []int
	for begin := w.clock.Now(); w.clock.Since(begin) < until; {
		result := w.unfinished(name, controller.HealthChange)
		if slices.Contains(w.calls.Take(), "look at pods of "+name) {
			looks = append(looks, int(w.clock.Since(begin).Seconds()))
		}
		w.clock.Step(result.RequeueAfter)
	}
	return looks
}

// TestLooksAtPodsBecomeRare: the time between two looks doubles up to a quarter of an hour.
func TestLooksAtPodsBecomeRare(t *testing.T) {
	w := neverHealthy(t)
	w.create(newShop("a"))
	w.unfinished("a", controller.SpecChange)

	looks := w.looksAtPods("a", time.Hour)

	expect.Equal(t, "looks", []int{3, 6, 12, 24, 48, 96, 192, 384, 768, 1536, 2436, 3336}, looks)
}

func TestFailingPodIsReported(t *testing.T) {
	const pulls, crashes = `pod a-1: container "web": ImagePullBackOff`, `pod a-1: container "web": CrashLoopBackOff`
	w := neverHealthy(t)
	w.engine.FailingPods = pulls
	w.create(newShop("a"))
	w.unfinished("a", controller.SpecChange)

	w.looksAtPods("a", 5*time.Second)
	expect.Contains(t, "message", w.message("a", apimeta.ConditionReady), "Available: 0/1: "+pulls)

	w.engine.FailingPods = crashes
	w.looksAtPods("a", 10*time.Second)
	expect.Contains(t, "message after the pod fails for another reason", w.message("a", apimeta.ConditionReady), "Available: 0/1: "+crashes)

	w.engine.FailingPods = ""
	w.looksAtPods("a", 20*time.Minute)
	expect.Equal(t, "whether the message stays after the pod was mended", false, strings.Contains(w.message("a", apimeta.ConditionReady), "pod a-1"))

	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
	w.passes("a", controller.HealthChange)
	w.calls.Take()
	expect.Equal(t, "looks at a healthy release", []int(nil), w.looksAtPods("a", 30*time.Minute))
}
