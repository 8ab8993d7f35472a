// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
)

// driftMode is what the spec says to do about drift.
func driftMode(spec v1alpha1.DemoAppSpec) v1alpha1.DriftMode {
	if spec.Drift == nil {
		return v1alpha1.DriftCorrect
	}
	return orElse(spec.Drift.Mode, v1alpha1.DriftCorrect)
}

// removesForeign reports whether fields that others add are drift.
func removesForeign(spec v1alpha1.DemoAppSpec) bool {
	return spec.Drift != nil && spec.Drift.ForeignFields == v1alpha1.ForeignFieldsRemove
}

// ignoreRules are the spec's in the engine's words.
func ignoreRules(spec v1alpha1.DemoAppSpec) []helm.IgnoreRule {
	if spec.Drift == nil {
		return nil
	}
	var rules []helm.IgnoreRule
	for _, ignored := range spec.Drift.Ignore {
		rules = append(rules, helm.IgnoreRule{Kind: ignored.Kind, Name: ignored.Name, Paths: ignored.Paths})
	}
	return rules
}

// applyDriftPolicy leaves out of the plan what is not to be corrected. What is
// to be warned of is looked at closely first; drift that consists of ignored
// fields alone becomes what the object is compared with from now on.
func (c *Controller) applyDriftPolicy(ctx context.Context, p *pass) error {
	if p.plan.Decision.Action != helm.ActionRepair {
		return nil
	}
	mode, rules := driftMode(p.app.Spec), ignoreRules(p.app.Spec)
	if mode == v1alpha1.DriftOff {
		p.leaveDrift()
		p.plan.Observed.Drifts = nil
		return nil
	}
	if mode == v1alpha1.DriftCorrect && !slices.ContainsFunc(p.plan.Decision.Drifts, func(drift helm.Drift) bool {
		return len(helm.IgnoredPaths(rules, drift.Object)) > 0
	}) {
		return nil
	}
	found, err := c.explain(ctx, p)
	if err != nil {
		return err
	}
	left := p.withoutIgnored(found, rules)
	p.plan.Decision.Drifts, p.plan.Observed.Drifts = driftsOf(left), driftsOf(left)
	switch {
	case len(left) == 0:
		p.leaveDrift()
	case mode == v1alpha1.DriftWarn:
		p.leaveDrift()
		p.conditions().Set(v1alpha1.ConditionDrifted, metav1.ConditionTrue, driftReason(driftsOf(left)), describe(left))
	}
	return nil
}

// explain looks closely at drift, once for each state of the objects.
func (c *Controller) explain(ctx context.Context, p *pass) ([]helm.Explanation, error) {
	state := fmt.Sprintf("%d %s", p.app.Generation, p.plan.Observed.Drifted)
	if found, ok := c.explanations.get(p.key(), state); ok {
		return found, nil
	}
	found, err := c.engine.Explain(ctx, p.key(), baselineOf(p.app), p.plan.Decision.Drifts)
	if err != nil {
		return nil, fmt.Errorf("find out what has drifted: %w", err)
	}
	c.explanations.set(p.key(), state, found)
	return found, nil
}

// explanations keeps what was found out about drift that stays, so that it is
// found out once.
type explanations struct {
	mu    sync.Mutex
	known map[cache.ObjectName]explained
}

type explained struct {
	state string
	found []helm.Explanation
}

func (e *explanations) get(key cache.ObjectName, state string) ([]helm.Explanation, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known, ok := e.known[key]
	return known.found, ok && known.state == state
}

func (e *explanations) set(key cache.ObjectName, state string, found []helm.Explanation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known == nil {
		e.known = map[cache.ObjectName]explained{}
	}
	e.known[key] = explained{state, found}
}

func (e *explanations) forget(key cache.ObjectName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.known, key)
}

// leaveDrift makes the plan one that does nothing about drift.
func (p *pass) leaveDrift() {
	p.plan.Decision = helm.Decision{Action: helm.ActionNone}
	if p.plan.Wanted.Action == helm.ActionRepair {
		p.plan.Wanted = p.plan.Decision
	}
}

// withoutIgnored returns the drift that is more than fields to be ignored, and
// takes the other objects as they are.
func (p *pass) withoutIgnored(found []helm.Explanation, rules []helm.IgnoreRule) []helm.Explanation {
	var left []helm.Explanation
	for _, explanation := range found {
		ignored := helm.IgnoredPaths(rules, explanation.Drift.Object)
		explanation.Fields = slices.DeleteFunc(slices.Clone(explanation.Fields), func(field string) bool { return helm.Ignored(field, ignored) })
		if explanation.Drift.Kind != helm.DriftChanged || len(ignored) == 0 || len(explanation.Fields) > 0 || explanation.Live.UID == "" {
			left = append(left, explanation)
			continue
		}
		for i := range p.app.Status.Inventory {
			entry := &p.app.Status.Inventory[i]
			if entry.Kind == explanation.Drift.Object.Kind && entry.Name == explanation.Drift.Object.Name &&
				entry.Namespace == explanation.Drift.Object.Namespace && entry.APIVersion == explanation.Drift.Object.APIVersion {
				entry.UID, entry.Digest = explanation.Live.UID, explanation.Live.Digest
			}
		}
	}
	return left
}

func driftsOf(explanations []helm.Explanation) []helm.Drift {
	var drifts []helm.Drift
	for _, explanation := range explanations {
		drifts = append(drifts, explanation.Drift)
	}
	return drifts
}

// driftReason tells drift of what the chart sets from what others added.
func driftReason(drifts []helm.Drift) string {
	changed := func(drift helm.Drift) bool { return drift.Kind != helm.DriftForeign }
	if len(drifts) > 0 && !slices.ContainsFunc(drifts, changed) {
		return v1alpha1.ReasonForeignFields
	}
	return v1alpha1.ReasonObjectsChanged
}

// maxNamedFields is how many fields of an object are named.
const maxNamedFields = 10

// describe names objects and fields, never values.
func describe(explanations []helm.Explanation) string {
	var parts []string
	for _, explanation := range explanations {
		part := fmt.Sprintf("%s %s (%s)", explanation.Drift.Object.Kind, explanation.Drift.Object.Name,
			strings.ToLower(string(explanation.Drift.Kind)))
		if fields := explanation.Fields; len(fields) > maxNamedFields {
			part += fmt.Sprintf(": %s and %d more", strings.Join(fields[:maxNamedFields], ", "), len(fields)-maxNamedFields)
		} else if len(fields) > 0 {
			part += ": " + strings.Join(fields, ", ")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}
