// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package appstack

import (
	appv1 "github.com/example/demoapp-controller/pkg/apis/app/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
)

func summarize(p *pass, outcome component.Outcome) {
	s := &p.Object.Status
	s.ObservedGeneration = p.Object.Generation
	s.Components = outcome.Components
	outcome.Report(p)
	s.Phase = outcome.Phase(s.Conditions)
}

func transitions(before, after *appv1.AppStack) []event.Event {
	return child.Events(before.Status.Children, after.Status.Children, before.Status.Conditions, after.Status.Conditions)
}
