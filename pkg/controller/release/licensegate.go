// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/release/license"
	"github.com/example/demoapp-controller/pkg/helm"
)

// Licenses is the part of a license server that the gate uses.
type Licenses interface {
	// Ask reports whether the subject may be rolled out. If anew is set, Ask does not use
	// a cached answer.
	Ask(ctx context.Context, subject license.Subject, anew bool) license.Answer
}

// License is the gate of a license server, which must grant each install or upgrade.
type License[T any] struct {
	// Server is asked; nil for no server. The gate is then open.
	Server Licenses
	// Retry is the delay before the server is asked again after a refusal, plus or minus 10%.
	Retry time.Duration
	// Image is the image of an object that the server grants; by default none.
	Image func(T) string
}

// heldByLicense says how the status of an object shows that a [License] holds it, for metrics.
func heldByLicense() kind.Gate {
	return kind.Gate{Name: "license", Condition: releasev1alpha1.ConditionLicensed, Status: metav1.ConditionFalse}
}

// gate returns the gate of an object.
func (l License[T]) gate(object T) Gate {
	return func(ctx context.Context, in GateInput) Verdict {
		if l.Server == nil {
			return Verdict{Remove: []string{releasev1alpha1.ConditionLicensed}}
		}
		if next := in.Plan.Next.Action; next != helm.ActionInstall && next != helm.ActionUpgrade {
			return keepLicense(in)
		}
		subject := license.Subject{Namespace: in.Key.Namespace, Name: in.Key.Name}
		if l.Image != nil {
			subject.Image = l.Image(object)
		}
		answer := l.Server.Ask(ctx, subject, in.Requested)
		if answer.Verdict == license.Granted {
			return Verdict{Condition: Condition(
				releasev1alpha1.ConditionLicensed, metav1.ConditionTrue, releasev1alpha1.ReasonLicenseGranted, answer.Message)}
		}
		reason := releasev1alpha1.ReasonLicenseUnavailable
		if answer.Verdict == license.Denied {
			reason = releasev1alpha1.ReasonLicenseDenied
		}
		verdict := Verdict{
			Condition: Condition(releasev1alpha1.ConditionLicensed, metav1.ConditionFalse, reason, answer.Message),
			Blockers:  []Blocker{{Reason: reason, Message: answer.Message}},
		}
		if !in.Blocked {
			// If another blocker holds the change, its end triggers the next question.
			verdict.RequeueAfter = controller.Jitter(l.Retry)
		}
		return verdict
	}
}

// keepLicense keeps the last answer while no change is to be rolled out. It removes the
// refusal of a change that is no longer desired.
func keepLicense(in GateInput) Verdict {
	last := meta.FindStatusCondition(in.Status.Conditions, releasev1alpha1.ConditionLicensed)
	switch {
	case last == nil || !in.Desired.Known:
		return Verdict{}
	case last.Status != metav1.ConditionTrue:
		return Verdict{Remove: []string{last.Type}}
	default:
		return Verdict{Condition: Condition(last.Type, last.Status, last.Reason, last.Message)}
	}
}
