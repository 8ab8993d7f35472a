// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"strings"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/pkg/message"
)

// maxMessage bounds the message of a component, in bytes.
const maxMessage = 1024

// statuses returns the components for the owner's status.
func statuses(parts []part) []childv1alpha1.ComponentStatus {
	found := make([]childv1alpha1.ComponentStatus, 0, len(parts))
	for i, p := range parts {
		c := childv1alpha1.ComponentStatus{Name: p.Name, Ready: p.ready(), Reason: p.verdict.Reason, Message: p.text()}
		if p.started {
			c.Endpoint = p.Endpoint
		} else {
			before, _ := waitsFor(parts, i)
			c.Reason, c.Message = childv1alpha1.ReasonWaitingForComponent, "Waits for "+before.waitText()
		}
		c.Message = message.Truncate(c.Message, maxMessage)
		found = append(found, c)
	}
	return found
}

// Of returns the status of a component by name. It is empty if there is no such component.
func (o Outcome) Of(name string) childv1alpha1.ComponentStatus {
	for _, c := range o.Components {
		if c.Name == name {
			return c
		}
	}
	return childv1alpha1.ComponentStatus{}
}

// SetConditions sets a condition for each component. types maps names of components to types of
// conditions. The condition of a missing component is removed.
func (o Outcome) SetConditions(conditions status.Editor, types map[string]string) {
	for _, c := range o.Components {
		switch conditionType, ok := types[c.Name]; {
		case !ok:
		case c.Ready:
			conditions.Set(conditionType, metav1.ConditionTrue, c.Reason, "All children are as desired and healthy")
		default:
			conditions.Set(conditionType, metav1.ConditionFalse, c.Reason, c.Message)
		}
	}
	for name, conditionType := range types {
		if o.Of(name).Name == "" {
			conditions.Remove(conditionType)
		}
	}
}

// text says why a started component is not ready. It begins with the component's field.
func (p part) text() string {
	if p.ready() {
		return ""
	}
	text, reason := p.Field+": "+p.verdict.Message, p.verdict.Reason
	if p.Fields != nil {
		text = p.Fields.Replace(text)
	}
	if p.Advice != nil && (reason == apimeta.ReasonUnhealthy || reason == apimeta.ReasonRefused) {
		if advice := p.Advice(p.causes); advice != "" {
			text += ": " + advice
		}
	}
	return text
}

// waitText describes the component in the messages of the components that wait for it.
func (p part) waitText() string {
	if !p.started {
		return p.Name
	}
	return p.Name + ": " + p.verdict.Message
}

// Report sets the conditions Ready, Reconciling and Stalled. Ready requires that all children are
// written, and that all components without IgnoreHealth are healthy. Report schedules the next
// pass if no event triggers one.
func (o Outcome) Report(p child.Pass) {
	child.RequeueAfter(p, o.State)
	conditions := p.Conditions()
	ready, current := conditions.Current(apimeta.ConditionReady)
	complete := current && (ready.Status == metav1.ConditionTrue || ready.Reason == childv1alpha1.ReasonDegraded)
	state, parts := o.State, make([]part, 0, len(o.parts))
	for _, p := range o.parts {
		if !p.IgnoreHealth {
			parts = append(parts, p)
			continue
		}
		for _, desired := range p.Children {
			state = state.Without(*desired.GetKind())
		}
	}
	summarize(child.Judge(state, o.Err), parts, complete).Mark(conditions)
}

// Phase summarizes the conditions that Report has set.
func (o Outcome) Phase(conditions []metav1.Condition) string {
	ready := meta.FindStatusCondition(conditions, apimeta.ConditionReady)
	switch {
	case ready == nil:
		return childv1alpha1.PhasePending
	case ready.Status == metav1.ConditionTrue:
		return childv1alpha1.PhaseRunning
	case meta.IsStatusConditionTrue(conditions, apimeta.ConditionStalled):
		return childv1alpha1.PhaseFailed
	case ready.Reason == childv1alpha1.ReasonDegraded:
		return childv1alpha1.PhaseDegraded
	case len(o.State.Children) == 0:
		return childv1alpha1.PhasePending
	default:
		return childv1alpha1.PhaseDeploying
	}
}

// summarize returns the verdict on all components, given the verdict on all their children.
// complete means that all components were ready at this generation before.
func summarize(all child.Verdict, parts []part, complete bool) child.Verdict {
	if all.Health == kstatus.CurrentStatus {
		all.Message = fmt.Sprintf("All %d components are ready", len(parts))
		return all
	}
	var texts, waiting []string
	for _, p := range parts {
		switch {
		case !p.started:
			waiting = append(waiting, p.Name)
		case !p.ready() && p.verdict.Reason == all.Reason:
			texts = append(texts, p.text())
		}
	}
	if len(texts) > 0 {
		all.Message = strings.Join(texts, "; ")
	}
	if len(waiting) > 0 {
		all.Message += "; not started yet: " + strings.Join(waiting, ", ")
	}
	if complete && all.Reason == apimeta.ReasonProgressing {
		all.Reason = childv1alpha1.ReasonDegraded
	}
	return all
}
