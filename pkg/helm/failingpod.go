// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/example/demoapp-controller/pkg/health"
)

// maxListedPods is the number of pods in each of the lists that look for a failing one. All pods of
// a workload have one template, so most failures show in its first pods. If only a later one fails,
// for example because of its node, the health of the workload is reported without a reason.
const maxListedPods = 10

// FailingPod says which pod of a Deployment, StatefulSet, DaemonSet or Job does not start, or why
// one cannot be created, and what to do; it returns an empty text if none of the first pods fails.
// It sends at most three lists of pods and one of events, with the permissions of the engine. Pods of
// a chart have no label in common, so they are not watched.
func (e *Engine) FailingPod(ctx context.Context, object ObjectHealth) (string, error) {
	workload, found := object.Object, false
	// Pods that do not start come first. Pods that crash may be running. The controllers of other kinds
	// delete pods that have failed.
	phases := []corev1.PodPhase{corev1.PodPending, corev1.PodRunning}
	if workload.Kind == "Deployment" || workload.Kind == "Job" {
		phases = append(phases, corev1.PodFailed)
	}
	for _, phase := range phases {
		list, err := e.clientset.CoreV1().Pods(workload.Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: object.Selector, FieldSelector: fields.OneTermEqualSelector("status.phase", string(phase)).String(), Limit: maxListedPods,
		})
		if err != nil {
			return "", fmt.Errorf("list pods of %s: %w", workload, err)
		}
		var pods []*corev1.Pod
		for i := range list.Items {
			pod := &list.Items[i]
			if kind, name := health.WorkloadOf(pod); kind == workload.Kind && name == workload.Name {
				pods = append(pods, health.ReducePod(pod, pod.ObjectMeta))
			}
		}
		found = found || len(pods) > 0 && phase != corev1.PodFailed
		if failing, fails, _ := health.FirstFailing(pods, e.clock.Now()); fails {
			return e.explainPod(ctx, failing), nil
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

// explainPod returns the problem of a pod, with the text of its events if only they have the details.
func (e *Engine) explainPod(ctx context.Context, failing health.FailingPod) string {
	if failing.Problem.InEvents() {
		explained, err := failing.WithEvents(ctx, e.clientset.CoreV1().Events(failing.Pod.Namespace), e.clock.Now())
		if err != nil {
			// The status alone explains the pod, as without the permission.
			e.logger.DebugContext(ctx, "Events of a pod are not read", slog.Any("err", err))
		}
		failing = explained
	}
	return failing.String()
}
