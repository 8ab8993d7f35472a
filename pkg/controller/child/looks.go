// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/expiring"
	"github.com/example/demoapp-controller/pkg/health"
)

// forgetLook is the time after which the events of a deleted object are forgotten. It is
// longer than the time between two looks.
const forgetLook = time.Hour

// looks have facts that only events contain: why the API server refuses the pods of StatefulSets and
// Jobs, and why a pod gets no volumes and no network. Events are listed only while that is so, at
// growing intervals.
type looks struct {
	events corev1client.EventsGetter
	byUID  expiring.Map[types.UID, look]
}

// look is the last look at the events of an object.
type look struct {
	// since is the time since when the object needs an explanation, and next the time of the next look.
	since, next time.Time
	// text is the message of the events; empty if they say nothing.
	text string
}

// refusal returns why the pods of a workload are refused, and what to do. since is a time since when
// the workload lacks pods. The text is empty if no event says it, and soon after since, when the
// workload may still get its pods. again is the time after which the answer may change.
func (l *looks) refusal(ctx context.Context, workload metav1.Object, since, now time.Time) (text string, again time.Duration) {
	return l.at(ctx, workload, since, now, func(events corev1client.EventInterface) (string, error) {
		return health.RefusedPods(ctx, events, fields.Set{"involvedObject.uid": string(workload.GetUID())})
	})
}

// explained returns the text about a failing pod, with the text of its events if only they have the
// details.
func (l *looks) explained(ctx context.Context, failing health.FailingPod, now time.Time) (text string, again time.Duration) {
	if !failing.Problem.InEvents() {
		return failing.String(), 0
	}
	text, again = l.at(ctx, failing.Pod, now.Add(-controller.NextLook(0)), now, func(events corev1client.EventInterface) (string, error) {
		explained, err := failing.WithEvents(ctx, events, now)
		return explained.String(), err
	})
	if text == "" {
		text = failing.String()
	}
	return text, again
}

// at returns the findings of read in the events about an object.
func (l *looks) at(
	ctx context.Context, object metav1.Object, since, now time.Time, read func(corev1client.EventInterface) (string, error),
) (text string, again time.Duration) {
	last, known := l.byUID.Get(object.GetUID(), now)
	if !known {
		last = look{since: since, next: since.Add(controller.NextLook(0))}
	}
	if !now.Before(last.next) {
		text, err := read(l.events.Events(object.GetNamespace()))
		if err != nil {
			// The health alone is reported, as without the permission.
			klog.FromContext(ctx).V(2).Info("Events are not read", "err", err)
		} else {
			last.text = text
		}
		last.next = now.Add(controller.NextLook(now.Sub(last.since)))
	}
	l.byUID.Set(object.GetUID(), last, forgetLook, now)
	return last.text, last.next.Sub(now)
}

// forget ends the reads of events for a workload that has its pods.
func (l *looks) forget(workload metav1.Object) { l.byUID.Delete(workload.GetUID()) }
