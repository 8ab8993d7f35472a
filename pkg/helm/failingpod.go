// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/example/demoapp-controller/pkg/health"
)

// maxListedPods is the number of pods in each of the lists that look for a failing one. All pods of
// a workload have one template, so most failures are those of its first pods. If only a later one
// fails, for example because of its node, the health of the workload is reported without a reason.
const maxListedPods = 10

// FailingPod says which pod of a Deployment, StatefulSet, DaemonSet or Job does not start, or why
// one cannot be created, and what to do; it returns an empty text if none of the first pods fails.
// It sends at most two lists of pods and one of events, with the permissions of the engine. Pods of
// a chart have no label in common, so they are not watched.
func (e *Engine) FailingPod(ctx context.Context, object ObjectHealth) (string, error) {
	workload, found := object.Object, false
	// Pods that do not start come first. Pods that crash may be running.
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning} {
		list, err := e.clientset.CoreV1().Pods(workload.Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: object.Selector, FieldSelector: fields.OneTermEqualSelector("status.phase", string(phase)).String(), Limit: maxListedPods,
		})
		if err != nil {
			return "", fmt.Errorf("list pods of %s: %w", workload, err)
		}
		for i := range list.Items {
			pod := &list.Items[i]
			if kind, name := health.WorkloadOf(pod); kind != workload.Kind || name != workload.Name {
				continue
			}
			found = true
			if problem, fails, _ := health.OfPodAt(pod, e.clock.Now()); fails {
				return problem.Of(pod), nil
			}
		}
	}
	// The health of StatefulSets and Jobs says whether pods are missing. A Deployment has a condition
	// for pods that are refused.
	if daemonSet := workload.Kind == "DaemonSet"; daemonSet && found || !daemonSet && object.PodsMissing == "" {
		return "", nil
	}
	refused, err := health.RefusedPods(ctx, e.clientset.CoreV1().Events(workload.Namespace),
		fields.Set{"involvedObject.kind": workload.Kind, "involvedObject.name": workload.Name})
	if err != nil {
		return "", fmt.Errorf("explain %s: %w", workload, err)
	}
	return refused, nil
}
