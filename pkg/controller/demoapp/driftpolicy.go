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

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
)

// driftMode is what the spec says to do about drift.
func driftMode(spec v1alpha1.DemoAppSpec) releasev1alpha1.DriftMode {
	if spec.Drift == nil {
		return releasev1alpha1.DriftCorrect
	}
	return orElse(spec.Drift.Mode, releasev1alpha1.DriftCorrect)
}

// removesForeign reports whether fields that others add are drift.
func removesForeign(spec v1alpha1.DemoAppSpec) bool {
	return spec.Drift != nil && spec.Drift.ForeignFields == releasev1alpha1.ForeignFieldsRemove
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
// to be warned of is looked at closely first, and so is what may be ignored.
func (c *Controller) applyDriftPolicy(ctx context.Context, p *pass) error {
	if p.plan.Decision.Action != helm.ActionRepair {
		return nil
	}
	mode, rules := driftMode(p.app.Spec), ignoreRules(p.app.Spec)
	if mode == releasev1alpha1.DriftOff {
		p.leaveDrift()
		p.plan.Observed.Drifts = nil
		return nil
	}
	if mode == releasev1alpha1.DriftCorrect && !slices.ContainsFunc(p.plan.Decision.Drifts, func(drift helm.Drift) bool {
		return len(helm.IgnoredPaths(rules, drift.Object)) > 0
	}) {
		return nil
	}
	found, err := c.explain(ctx, p)
	if err != nil {
		return err
	}
	left := p.leftOver(found, mode)
	p.plan.Decision.Drifts, p.plan.Observed.Drifts = driftsOf(left), driftsOf(left)
	switch {
	case len(left) == 0:
		p.leaveDrift()
	case mode == releasev1alpha1.DriftWarn:
		p.leaveDrift()
		p.conditions().Set(releasev1alpha1.ConditionDrifted, metav1.ConditionTrue, driftReason(driftsOf(left)), p.redact(describe(left)))
	}
	return nil
}

// explain looks closely at drift, once for each state of the objects.
func (c *Controller) explain(ctx context.Context, p *pass) ([]helm.Explanation, error) {
	state := fmt.Sprintf("%d %s", p.app.Generation, p.plan.Observed.Drifted)
	if found, ok := c.explanations.get(p.key(), state); ok {
		return found, nil
	}
	baseline := baselineOf(p.app)
	baseline.LeaveDrift = driftMode(p.app.Spec) == releasev1alpha1.DriftWarn
	found, err := c.engine.Explain(ctx, p.key(), baseline, p.plan.Decision.Drifts)
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

// leftOver returns the drift that is to be corrected or reported. An object that
// differs in nothing but what may differ is from now on compared with what it is. One
// whose values were put back is neither: somebody else owns them now, and would
// change them again unseen. It is applied again where drift is corrected, and where
// it is reported there is nothing to say of it.
func (p *pass) leftOver(found []helm.Explanation, mode releasev1alpha1.DriftMode) []helm.Explanation {
	var left []helm.Explanation
	for _, explanation := range found {
		entry := p.inventoryEntry(explanation.Drift.Object)
		switch {
		case explanation.Acceptable:
			if explanation.Drift.Kind == helm.DriftChanged && entry != nil {
				entry.Digest = explanation.Live.Digest
			}
		case mode == releasev1alpha1.DriftWarn && isPutBack(explanation, entry):
			// Its entry stays as it is, so that the next change is drift again.
		default:
			left = append(left, explanation)
		}
	}
	return left
}

// isPutBack reports whether an object that others changed has all its values again.
func isPutBack(explanation helm.Explanation, entry *releasev1alpha1.InventoryEntry) bool {
	if len(explanation.Fields) > 0 {
		return false
	}
	changed := explanation.Drift.Kind == helm.DriftChanged && entry != nil && entry.UID == explanation.Live.UID
	return changed || explanation.Drift.Kind == helm.DriftForeign
}

// inventoryEntry is what the status remembers of an object; nil when it has none.
func (p *pass) inventoryEntry(ref helm.ObjectReference) *releasev1alpha1.InventoryEntry {
	for i := range p.app.Status.Inventory {
		entry := &p.app.Status.Inventory[i]
		if entry.APIVersion == ref.APIVersion && entry.Kind == ref.Kind && entry.Namespace == ref.Namespace && entry.Name == ref.Name {
			return entry
		}
	}
	return nil
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
		return releasev1alpha1.ReasonForeignFields
	}
	return releasev1alpha1.ReasonObjectsChanged
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
