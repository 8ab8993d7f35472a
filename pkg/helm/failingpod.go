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

// maxListedPods is the number of pods in each of the lists that look for a failing one.
const maxListedPods = 10

// FailingPod says which pod of a Deployment, StatefulSet, DaemonSet or Job does not start, why, and
// what to do; it returns an empty text if none of the first pods fails. selector is the label
// selector of the workload. It sends at most two lists, with the permissions of the engine. Pods of
// a chart have no label in common, so they are not watched.
func (e *Engine) FailingPod(ctx context.Context, workload ObjectReference, selector string) (string, error) {
	// Pods that do not start come first. Pods that crash may be running.
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning} {
		list, err := e.clientset.CoreV1().Pods(workload.Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: selector, FieldSelector: fields.OneTermEqualSelector("status.phase", string(phase)).String(), Limit: maxListedPods,
		})
		if err != nil {
			return "", fmt.Errorf("list pods of %s: %w", workload, err)
		}
		for i := range list.Items {
			pod := &list.Items[i]
			if kind, name := health.WorkloadOf(pod); kind != workload.Kind || name != workload.Name {
				continue
			}
			if problem, fails, _ := health.OfPodAt(pod, e.clock.Now()); fails {
				return problem.Of(pod), nil
			}
		}
	}
	return "", nil
}
