// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	"github.com/example/demoapp-controller/pkg/helm"
)

// Summary is the health of all objects of a release.
type Summary struct {
	// Healthy says that every object is current.
	Healthy bool
	// Failed says that an object failed by kstatus.
	Failed bool
	// PodsRefused says that a quota or admission refuses the pods of a workload.
	PodsRefused bool
	// Message names the objects that are not current, with their messages.
	Message string
	// Replicas, ReadyReplicas and Selector describe the workload.
	Replicas, ReadyReplicas int32
	Selector                string
}

// Summarize combines the health of all objects of a release.
func Summarize(objects []helm.ObjectHealth) Summary {
	summary := Summary{Healthy: true}
	var messages []string
	for _, object := range objects {
		if object.Selector != "" && summary.Selector == "" {
			summary.Replicas, summary.ReadyReplicas, summary.Selector = object.Replicas, object.ReadyReplicas, object.Selector
		}
		if object.Status == status.CurrentStatus {
			continue
		}
		summary.Healthy = false
		summary.Failed = summary.Failed || object.Status == status.FailedStatus
		summary.PodsRefused = summary.PodsRefused || object.PodsRefused != ""
		messages = append(messages, fmt.Sprintf("%s %s: %s", object.Object.Kind, object.Object.Name, object.Message))
	}
	summary.Message = strings.Join(messages, "; ")
	return summary
}

// Names lists drifted objects for a message.
func Names(drifts []helm.Drift) string {
	names := make([]string, 0, len(drifts))
	for _, drift := range drifts {
		names = append(names, fmt.Sprintf("%s %s (%s)", drift.Object.Kind, drift.Object.Name, strings.ToLower(string(drift.Kind))))
	}
	return strings.Join(names, ", ")
}
