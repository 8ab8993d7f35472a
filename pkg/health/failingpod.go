// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// failureCounts is the time for which a failed pod explains a workload that replaces it.
const failureCounts = 10 * time.Minute

// FailingPod is a pod that keeps its workload from being healthy.
type FailingPod struct {
	Pod     *corev1.Pod
	Problem PodProblem
}

// String names the pod and its problem.
func (f FailingPod) String() string { return fmt.Sprintf("pod %s: %s", f.Pod.Name, f.Problem) }

// WithEvents returns the pod with the text of its events. It sends one list. After an error, the
// problem is unchanged.
func (f FailingPod) WithEvents(ctx context.Context, events corev1client.EventInterface, now time.Time) (FailingPod, error) {
	warnings, err := WarningsOf(ctx, events, f.Pod)
	if err != nil {
		return f, err
	}
	if problem, fails, _ := Explain(PodFacts{Pod: f.Pod, Events: warnings, Now: now}); fails {
		f.Problem = problem
	}
	return f, nil
}

// FirstFailing returns the first pod by name of those that do not go on by themselves; without one,
// the pod that failed last, as long as its replacement may fail for the same reason. Pods may be
// reduced. again has the same meaning as for [Explain].
func FirstFailing(pods []*corev1.Pod, now time.Time) (failing FailingPod, found bool, again time.Duration) {
	soonest := func(after time.Duration) {
		if after > 0 && (again == 0 || after < again) {
			again = after
		}
	}
	var failed []*corev1.Pod
	for _, pod := range slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) }) {
		if HasFailed(pod) {
			failed = append(failed, pod)
			continue
		}
		problem, fails, after := Explain(PodFacts{Pod: pod, Now: now})
		soonest(after)
		if fails && !found {
			failing, found = FailingPod{pod, problem}, true
		}
	}
	if found || len(failed) == 0 {
		return failing, found, again
	}
	last := slices.MaxFunc(failed, func(a, b *corev1.Pod) int { return endOf(a).Compare(endOf(b)) })
	if !FailedLately(last, now) {
		return failing, false, again
	}
	if kind, _ := WorkloadOf(last); kind != "Job" {
		soonest(endOf(last).Add(failureCounts).Sub(now))
	}
	problem, _, _ := Explain(PodFacts{Pod: last, Now: now})
	return FailingPod{last, problem}, true, again
}

// HasFailed reports whether a pod has failed and is not started again.
func HasFailed(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp == nil
}

// FailedLately reports whether a failed pod may still be why its workload is not healthy: always for a
// Job, whose pods all count, and for ten minutes where another pod replaces it.
func FailedLately(pod *corev1.Pod, now time.Time) bool {
	kind, _ := WorkloadOf(pod)
	return kind == "Job" || kind == "" || now.Sub(endOf(pod)) < failureCounts
}

func endOf(pod *corev1.Pod) time.Time { return endCondition(pod).LastTransitionTime.Time }
