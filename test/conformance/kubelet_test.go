// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// endsLabel is the phase in which a Pod ends. The simulated nodes let Pods run for ever unless a
// Job owns them.
const endsLabel = "conformance.demo.example.com/ends"

// endPods ends the Pods with that label until ctx ends.
func endPods(ctx context.Context) {
	for ctx.Err() == nil {
		if err := endPodsOnce(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "end pods:", err)
			return
		}
	}
}

func endPodsOnce(ctx context.Context) error {
	pods := shared.Client.CoreV1().Pods(metav1.NamespaceAll)
	events, err := pods.Watch(ctx, metav1.ListOptions{LabelSelector: endsLabel})
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("unexpected %T", event.Object)
		}
		phase := corev1.PodPhase(pod.Labels[endsLabel])
		if event.Type == watch.Deleted || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		patch := fmt.Sprintf(`{"status": {"phase": %q, "conditions": null}}`, phase)
		_, err := shared.Client.CoreV1().Pods(pod.Namespace).
			Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if err != nil && !apierrors.IsNotFound(err) {
			return errors.Join(fmt.Errorf("end pod %s/%s", pod.Namespace, pod.Name), err)
		}
	}
	return nil
}
