// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"slices"
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
	// Children are applied as soon as the component may start.
	Children []child.Desired
	// Endpoint is the address of the component in the cluster, as host:port. The status shows
	// it when the component has started. Optional.
	Endpoint string
	// Advice says what to do about the text of a failure or a refusal of the children, for
	// example "check spec.backend.image"; empty for no advice. Optional.
	Advice func(problem string) string
	// Aside says that the condition Ready does not depend on the health of the component's
	// children. A child that cannot be written, or that others change again and again, counts
	// all the same. No other component has children of these kinds.
	Aside bool
	// After names the components that must be ready before this one starts. Nil means all
	// components before it. Names that no component has are ignored, so that a component that
	// is switched off holds nothing up.
	After []string
}

// Outcome is what Ensure leaves behind.
type Outcome struct {
	// State of the children of all components that have started.
	State child.State
	// Err is the error of the children; nil if all could be written.
	Err error
	// Components are the statuses of the components, in the order in which they were given.
	Components []childv1alpha1.ComponentStatus

	parts []part
}

// part is a component as a pass finds it.
type part struct {
	Component

	// started: the component has children, or its children are applied in this pass.
	started bool
	// verdict is on the children of a component that has started.
	verdict child.Verdict
}

func (p part) ready() bool { return p.started && p.verdict.Health == kstatus.CurrentStatus }

// Ensure makes the children of the components that have started the desired ones, and
// starts the components whose turn it is. A component has started if one of its children
// exists or was applied before. Children of components that are no longer given are
// deleted. See [child.Set.Ensure] for status and errors.
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
				parts[i].verdict = state.VerdictOn(p.Children...)
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

// startable returns the indices of the components that have not started and whose turn it is.
func startable(parts []part) []int {
	var indices []int
	for i, p := range parts {
		if _, waits := waitsFor(parts, i); !p.started && !waits {
			indices = append(indices, i)
		}
	}
	return indices
}

// waitsFor returns the first component that has to be ready before another one starts, and
// is not.
func waitsFor(parts []part, i int) (part, bool) {
	for _, before := range parts[:i] {
		if (parts[i].After == nil || slices.Contains(parts[i].After, before.Name)) && !before.ready() {
			return before, true
		}
	}
	return part{}, false
}
