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

// forgetLook is the time after which the looks at a workload that was deleted are forgotten. It is
// longer than the time between two looks.
const forgetLook = time.Hour

// refusals know why the API server refuses the pods of StatefulSets and Jobs. Only events say it,
// which are listed only while a workload lacks pods, at growing intervals.
type refusals struct {
	events corev1client.EventsGetter
	looks  expiring.Map[types.UID, look]
}

// look is the last look at the events of a workload.
type look struct {
	// since is the time since when the workload lacks pods, and next that of the next look.
	since, next time.Time
	// text says why the pods are refused; empty if no event says it.
	text string
}

// of returns why the pods of a workload are refused, and what to do. since is a time since when the
// workload lacks pods. The text is empty if no event says it, and soon after since, when the
// workload may still get its pods. again is the time after which the answer may change.
func (r *refusals) of(ctx context.Context, workload metav1.Object, since, now time.Time) (text string, again time.Duration) {
	last, known := r.looks.Get(workload.GetUID(), now)
	if !known {
		last = look{since: since, next: since.Add(controller.NextLook(0))}
	}
	if !now.Before(last.next) {
		text, err := health.RefusedPods(ctx, r.events.Events(workload.GetNamespace()), fields.Set{"involvedObject.uid": string(workload.GetUID())})
		if err != nil {
			// The health alone is reported, as without the permission.
			klog.FromContext(ctx).V(2).Info("Missing pods are not explained", "err", err)
		} else {
			last.text = text
		}
		last.next = now.Add(controller.NextLook(now.Sub(last.since)))
	}
	r.looks.Set(workload.GetUID(), last, forgetLook, now)
	return last.text, last.next.Sub(now)
}

// forget ends the looks at a workload that has its pods.
func (r *refusals) forget(workload metav1.Object) { r.looks.Delete(workload.GetUID()) }
