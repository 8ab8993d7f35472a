// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"slices"
	"strings"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/child"
)

// Component is a part of an owner: children that start together.
type Component struct {
	// Name of the component, for example "database". It is unique in its owner.
	Name string
	// Field is the path of the component in the owner, for example "spec.database". Messages
	// about the component begin with it.
	Field string
	// Children are applied when the component may start.
	Children []child.Desired
	// Endpoint is the address of the component in the cluster, as host:port. The status shows
	// it when the component has started. Optional.
	Endpoint string
	// Advice returns a remedy for a failure or a refusal of the children, for example
	// "check spec.backend.image". It may return an empty text. Optional.
	Advice func([]child.Cause) string
	// Fields maps fields of the children to fields of the owner in messages. Optional.
	Fields *strings.Replacer
	// IgnoreHealth excludes the health of the component's children from the condition Ready. A
	// child that cannot be written, or that other clients change repeatedly, still counts. No other
	// component may have children of the same kinds.
	IgnoreHealth bool
	// After names the components that must be ready before this one starts. Nil means all
	// components before it. Unknown names are ignored, so a disabled component blocks nothing.
	After []string
}

// Outcome is the result of Ensure.
type Outcome struct {
	// State is the state of the children of all components that have started.
	State child.State
	// Err is the error of the children. It is nil if all children were written.
	Err error
	// Components are the statuses of the components, in the order of the arguments.
	Components []childv1alpha1.ComponentStatus

	parts []part
}

// part is a component with its state in a pass.
type part struct {
	Component

	// started: the component has children, or its children are applied in this pass.
	started bool
	// verdict is the verdict on the children of a started component.
	verdict child.Verdict
	// causes are the causes of the verdict.
	causes []child.Cause
}

func (p part) ready() bool { return p.started && p.verdict.Health == kstatus.CurrentStatus }

// Ensure reconciles the children of the started components, and starts the components whose
// dependencies are ready. A component has started if one of its children exists or was applied
// before. Children of removed components are deleted. See [child.Set.Ensure] for status and errors.
func Ensure(
	ctx context.Context, set *child.Set, owner metav1.Object, status *childv1alpha1.ChildrenStatus, now time.Time,
	components ...Component,
) Outcome {
	parts := make([]part, len(components))
	for i, c := range components {
		parts[i] = part{Component: c, started: set.Has(owner, status, c.Children...)}
	}
	for {
		for _, i := range startable(parts) {
			parts[i].started = true
		}
		state, err := set.Ensure(ctx, owner, status, now, childrenOf(parts)...)
		for i, p := range parts {
			if p.started {
				parts[i].verdict, parts[i].causes = state.VerdictOn(p.Children...), state.CausesOf(p.Children...)
			}
		}
		if ctx.Err() != nil || len(startable(parts)) == 0 {
			return Outcome{State: state, Err: err, Components: statuses(parts), parts: parts}
		}
	}
}

// childrenOf returns the children of the components that have started.
func childrenOf(parts []part) []child.Desired {
	var children []child.Desired
	for _, p := range parts {
		if p.started {
			children = append(children, p.Children...)
		}
	}
	return children
}

// startable returns the indices of the components that have not started and whose dependencies are
// ready.
func startable(parts []part) []int {
	var indices []int
	for i, p := range parts {
		if _, waits := waitsFor(parts, i); !p.started && !waits {
			indices = append(indices, i)
		}
	}
	return indices
}

// waitsFor returns the first component that is not ready and that part i depends on.
func waitsFor(parts []part, i int) (part, bool) {
	for _, before := range parts[:i] {
		if (parts[i].After == nil || slices.Contains(parts[i].After, before.Name)) && !before.ready() {
			return before, true
		}
	}
	return part{}, false
}
