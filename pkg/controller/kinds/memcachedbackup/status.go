// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memcachedbackup

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
)

// summarize sets the status. The Deployment and its pods come from two watches, so Ready
// waits until both show all pods.
func summarize(p *pass, state child.State, nodes []string, err error) {
	s, size := &p.Object.Status, int(*p.Object.Spec.Size)
	s.ObservedGeneration = p.Object.Generation
	s.Nodes = nodes[:min(len(nodes), cachev1.MaxNodes)]
	s.ReadyReplicas = state.Of("Deployment", p.Object.Name).Health.ReadyReplicas
	child.Report(p, state, err)
	if len(nodes) < size && meta.IsStatusConditionTrue(s.Conditions, apimeta.ConditionReady) {
		p.Conditions().MarkReconciling(apimeta.ReasonProgressing, fmt.Sprintf("%d of %d pods are observed", len(nodes), size))
	}
}

func transitions(before, after *cachev1.MemcachedBackup) []event.Event {
	return child.Events(before.Status.Children, after.Status.Children, before.Status.Conditions, after.Status.Conditions)
}
