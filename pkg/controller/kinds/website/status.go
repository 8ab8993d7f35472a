// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package website

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
)

// summarize makes the status from the result of Ensure.
func summarize(p *pass, state child.State, domain naming.Domain, err error) {
	s, pods := &p.Object.Status, state.Of("Deployment", p.Object.Name).Health
	s.ObservedGeneration = p.Object.Generation
	s.Replicas, s.ReadyReplicas = pods.Replicas, pods.ReadyReplicas
	s.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labelsOf(p.Object)})
	s.URL = "http://" + domain.Host(p.Object.Name, p.Object.Namespace)
	child.Report(p, state, err)
}

func transitions(before, after *webappv1.Website) []event.Event {
	return child.Events(before.Status.Children, after.Status.Children, before.Status.Conditions, after.Status.Conditions)
}
