// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
)

// validationRetry is when to look again at an app that is not valid, although
// whatever it depends on is watched.
const validationRetry = 5 * time.Minute

// validate is the gate of the rules that the API server cannot check. An app
// that breaks one is told so also when nothing is to be rolled out: what runs is
// left alone, and a person has to decide.
func (c *Controller) validate(_ context.Context, p *pass) {
	claims := wantedClaims(p.app.Spec)
	if c.registries.IsEmpty() && len(claims) == 0 {
		p.conditions().Remove(v1alpha1.ConditionValidated)
		return
	}
	var kept, broken []string
	stalled := false
	if !c.registries.IsEmpty() {
		name, err := c.registries.Check(orElse(p.app.Spec.Image, defaultImage))
		if err != nil {
			broken, stalled = append(broken, err.Error()), true
		} else {
			kept = append(kept, fmt.Sprintf("image %s is from an allowed registry", name))
		}
	}
	for _, claim := range claims {
		message, lasts := c.refusal(p, claim)
		if message != "" {
			broken, stalled = append(broken, message), stalled || lasts
		} else {
			kept = append(kept, fmt.Sprintf("%s is this DemoApp's", claim))
		}
	}
	if dependency := meta.FindStatusCondition(p.app.Status.Conditions, v1alpha1.ConditionDependencyReady); dependency != nil {
		kept = append(kept, "waitFor: "+dependency.Message)
	}
	if len(broken) == 0 {
		p.conditions().Set(v1alpha1.ConditionValidated, metav1.ConditionTrue, v1alpha1.ReasonValidationSucceeded, sentence(kept))
		return
	}
	message := sentence(broken)
	p.conditions().Set(v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonValidationFailed, message)
	p.next = min(p.next, controller.Jitter(validationRetry))
	if p.plan.Wanted.Action == helm.ActionRollback {
		return // It brings nothing new, and the way back must stay open.
	}
	p.blockers = append(p.blockers, blocker{reason: v1alpha1.ReasonValidationFailed, message: message, stalled: stalled})
}

// sentence puts parts together for a person to read.
func sentence(parts []string) string {
	text := strings.Join(parts, "; ")
	return strings.ToUpper(text[:1]) + text[1:]
}
