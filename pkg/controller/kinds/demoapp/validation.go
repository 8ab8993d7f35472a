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
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
)

// validationRetry is the delay before an invalid app is reconciled again. It is a
// fallback: everything that the validation depends on is watched.
const validationRetry = 5 * time.Minute

// validate is the gate of the rules that the API server cannot check. A broken rule is
// reported even if nothing is to be rolled out. The deployed release is kept, because a
// user must decide.
func (c *Controller) validate(app *v1alpha1.DemoApp) release.Gate {
	return func(_ context.Context, in release.GateInput) release.Verdict {
		requested := requestedClaims(app)
		if c.registries.IsEmpty() && len(requested) == 0 {
			return release.Verdict{Remove: []string{v1alpha1.ConditionValidated}}
		}
		kept, broken, stalled := c.check(app, in, requested)
		if len(broken) == 0 {
			return release.Verdict{Condition: release.Condition(
				v1alpha1.ConditionValidated, metav1.ConditionTrue, v1alpha1.ReasonValidationSucceeded, sentence(kept))}
		}
		message := sentence(broken)
		verdict := release.Verdict{
			Condition:    release.Condition(v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonValidationFailed, message),
			RequeueAfter: controller.Jitter(validationRetry),
		}
		if in.Plan.Next.Action != helm.ActionRollback { // A rollback must stay possible.
			verdict.Blockers = []release.Blocker{{Reason: v1alpha1.ReasonValidationFailed, Message: message, Stalled: stalled}}
		}
		return verdict
	}
}

// check returns which rules the app keeps and which it breaks, and whether a user must
// act.
func (c *Controller) check(app *v1alpha1.DemoApp, in release.GateInput, requested []claims) (kept, broken []string, stalled bool) {
	if !c.registries.IsEmpty() {
		name, err := c.registries.Check(imageOf(app.Spec, c.images))
		if err != nil {
			broken, stalled = append(broken, err.Error()), true
		} else {
			kept = append(kept, fmt.Sprintf("image %s is from an allowed registry", name))
		}
	}
	for _, claims := range requested {
		message, lasts := c.refusal(app, in, claims)
		if message != "" {
			broken, stalled = append(broken, message), stalled || lasts
		} else {
			kept = append(kept, claims.describe(app)+" is this DemoApp's")
		}
	}
	if dependency := meta.FindStatusCondition(in.Status.Conditions, releasev1alpha1.ConditionDependencyReady); dependency != nil {
		kept = append(kept, "waitFor: "+dependency.Message)
	}
	return kept, broken, stalled
}

// sentence joins the parts of a message.
func sentence(parts []string) string {
	text := strings.Join(parts, "; ")
	return strings.ToUpper(text[:1]) + text[1:]
}
