// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"slices"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
)

// podLooks are the reads of the pods of an unhealthy release. A pod that fails, or fails for
// another reason, changes nothing of its workload, so no watch reports it.
type podLooks struct {
	// revision has not been healthy since.
	revision int64
	since    time.Time
	// next is the time of the next look.
	next time.Time
	// workload is the one of which the last look found a failing pod, and failing says which and why;
	// empty if it found none.
	workload helm.ObjectReference
	failing  string
}

// explainPods adds to the health of workloads why a pod does not start, or cannot be created. The
// time between two looks grows with the time that the release has not been healthy.
func (l *Lifecycle) explainPods(ctx context.Context, s *subject, f Facts, plan Plan) Plan {
	var waiting []int
	for i, object := range plan.Observed.Health {
		if object.Status != status.CurrentStatus && object.Selector != "" && isExplained(object) {
			waiting = append(waiting, i)
		}
	}
	if len(waiting) == 0 || s.status.DeployedRelease == nil {
		l.podLooks.Forget(f.Key)
		return plan
	}
	looks, known := l.podLooks.Get(f.Key)
	if revision := s.status.DeployedRelease.Revision; !known || looks.revision != revision {
		looks = podLooks{revision: revision, since: f.Now, next: f.Now.Add(controller.NextLook(0))}
		if since := unhealthySince(*s.written(), revision); !known && !since.IsZero() {
			// A former process has explained it. The status must not change twice.
			looks.since, looks.next = since, f.Now
		}
	}
	if !f.Now.Before(looks.next) {
		looks.workload, looks.failing = l.look(ctx, plan.Observed.Health, waiting)
		looks.next = f.Now.Add(controller.NextLook(f.Now.Sub(looks.since)))
	}
	l.podLooks.Set(f.Key, looks)
	s.RequeueAfter(looks.next.Sub(f.Now))
	plan.Observed.Health = slices.Clone(plan.Observed.Health) // The engine has the same slice.
	for _, i := range waiting {
		if object := &plan.Observed.Health[i]; looks.failing != "" && object.Object.Identity() == looks.workload.Identity() {
			object.Health = object.Explained(looks.failing)
		}
	}
	return plan
}

// isExplained reports whether a look may say why a workload is not healthy. A Deployment without
// pods says why itself.
func isExplained(object helm.ObjectHealth) bool {
	return object.PodsRefused == "" && (object.Replicas > 0 || object.Object.Kind != "Deployment")
}

// unhealthySince returns the time since when a written status says that a revision is not healthy;
// zero if it does not.
func unhealthySince(written releasev1alpha1.ReleaseStatus, revision int64) time.Time {
	ready := meta.FindStatusCondition(written.Conditions, apimeta.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || written.DeployedRelease == nil || written.DeployedRelease.Revision != revision {
		return time.Time{}
	}
	return ready.LastTransitionTime.Time
}

// look returns the first of the waiting workloads with a pod that does not start or cannot be
// created, and why.
func (l *Lifecycle) look(ctx context.Context, objects []helm.ObjectHealth, waiting []int) (workload helm.ObjectReference, failing string) {
	for _, i := range waiting {
		failing, err := l.engine.FailingPod(ctx, objects[i])
		if err != nil {
			// The health alone is reported, as without the permission.
			klog.FromContext(ctx).V(2).Info("Pods are not explained", "err", err)
			return workload, ""
		}
		if failing != "" {
			return objects[i].Object, failing
		}
	}
	return workload, ""
}
