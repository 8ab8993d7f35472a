// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shutdown says how the pods of a Service end, so that no request fails: a pod that is deleted serves on until the
// nodes send it no new connections, and only then gets its signal.
//
// The delay is the sleep action of a preStop hook, which runs in the kubelet: an image needs no program for it. API servers
// before 1.30 drop the action, and their pods end at once, as before.
package shutdown

import "k8s.io/apimachinery/pkg/runtime"

const (
	// Delay is the time in seconds between the deletion of a pod and its signal. Nodes learn within about a second that
	// a pod of a Service ends; load balancers outside of the cluster may need more.
	Delay = 5
	// GracePeriod is the time in seconds from the deletion of a pod to its end by force: Delay, and the default of
	// Kubernetes for the program.
	GracePeriod = Delay + 30
)

// Without returns a copy of a pod template without the grace period, and without the preStop hooks of its containers. It
// reports whether the template has any of these.
func Without(template map[string]any) (rest map[string]any, found bool) {
	rest = runtime.DeepCopyJSON(template)
	spec, _ := rest["spec"].(map[string]any)
	if _, found = spec["terminationGracePeriodSeconds"]; found {
		delete(spec, "terminationGracePeriodSeconds")
	}
	containers, _ := spec["containers"].([]any)
	for _, item := range containers {
		container, _ := item.(map[string]any)
		lifecycle, _ := container["lifecycle"].(map[string]any)
		if _, hook := lifecycle["preStop"]; !hook {
			continue
		}
		found = true
		delete(lifecycle, "preStop")
		if len(lifecycle) == 0 {
			delete(container, "lifecycle")
		}
	}
	return rest, found
}
