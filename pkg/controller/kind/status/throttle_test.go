// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

type object = *metav1.PartialObjectMetadata

func objectOf(uid types.UID, version string) object {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version}}
}

func TestThrottleDelaysWrites(t *testing.T) {
	const d = time.Second
	key := cache.NewObjectName("ns", "a")
	steps := []struct {
		name string
		at   time.Duration
		uid  types.UID
		// wrote says that the status is written when its time is over.
		wrote bool
		want  time.Duration
	}{
		{"the first status", 0, "uid-1", false, d},
		{"a later one", d / 4, "uid-1", false, d * 3 / 4},
		{"long enough", d, "uid-1", true, 0},
		{"after the write", d, "uid-1", false, d},
		{"an object of the same name that was created again", 2 * d, "uid-2", false, d},
	}
	var throttle Throttle[object]
	for _, step := range steps {
		next := objectOf(step.uid, step.name)

		got := throttle.Hold(key, next, d, 0, before.Add(step.at))

		if got != step.want {
			t.Errorf("%s: held for %v, want %v", step.name, got, step.want)
		}
		if held, ok := throttle.Held(key, step.uid); step.want > 0 && (!ok || held != next) {
			t.Errorf("%s: the status that is held is %v", step.name, held)
		}
		if _, ok := throttle.Held(key, "uid-3"); ok {
			t.Errorf("%s: another object resumes the status", step.name)
		}
		if step.wrote {
			throttle.Wrote(key, next, 0, before.Add(step.at))
			if _, ok := throttle.Held(key, step.uid); ok {
				t.Errorf("%s: the status is still held", step.name)
			}
		}
	}
	throttle.Forget(key)
	if _, ok := throttle.Held(key, "uid-2"); ok {
		t.Error("the status of a forgotten object is held")
	}
}

func TestThrottleKeepsWritesApart(t *testing.T) {
	const interval = time.Second
	key, next := cache.NewObjectName("ns", "a"), objectOf("uid-1", "1")
	var throttle Throttle[object]

	first := throttle.Hold(key, next, 0, interval, before)
	throttle.Wrote(key, next, interval, before)
	soon := throttle.Hold(key, next, 0, interval, before.Add(interval/4))
	later := throttle.Hold(key, next, 0, interval, before.Add(interval))

	want := []time.Duration{0, interval * 3 / 4, 0}
	if diff := cmp.Diff(want, []time.Duration{first, soon, later}); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

func TestKeepTransitionTimes(t *testing.T) {
	written := []metav1.Condition{condition("Ready", metav1.ConditionTrue, 1, before, "Healthy", ""), condition("Stalled", metav1.ConditionTrue, 1, before, "Refused", "")}
	next := []metav1.Condition{
		condition("Ready", metav1.ConditionTrue, 2, now, "Healthy", ""),
		condition("Stalled", metav1.ConditionFalse, 2, now, "Refused", ""),
		condition("Drifted", metav1.ConditionTrue, 2, now, "ObjectsChanged", ""),
	}

	KeepTransitionTimes(written, next)

	want := []metav1.Time{metav1.NewTime(before), metav1.NewTime(now), metav1.NewTime(now)}
	got := []metav1.Time{next[0].LastTransitionTime, next[1].LastTransitionTime, next[2].LastTransitionTime}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
}
