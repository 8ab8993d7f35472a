// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/gates/license"
	"github.com/example/demoapp-controller/pkg/helm"
)

// Licenses is the part of a license server that the gate uses.
type Licenses interface {
	// Ask reports whether the subject may be rolled out. If anew is set, Ask does not use
	// a cached answer.
	Ask(ctx context.Context, subject license.Subject, anew bool) license.Answer
}

// License is the gate of a license server, which must grant each install or upgrade.
// After a refusal, the server is asked again after retry, plus or minus 10%. Without a
// server, the gate is open.
func License(server Licenses, retry time.Duration, image string) release.Gate {
	return func(ctx context.Context, in release.GateInput) release.Verdict {
		if server == nil {
			return release.Verdict{Remove: []string{releasev1alpha1.ConditionLicensed}}
		}
		if next := in.Plan.Next.Action; next != helm.ActionInstall && next != helm.ActionUpgrade {
			return keepLicense(in)
		}
		answer := server.Ask(ctx, license.Subject{Namespace: in.Key.Namespace, Name: in.Key.Name, Image: image}, in.Requested)
		if answer.Verdict == license.Granted {
			return release.Verdict{Condition: release.Condition(
				releasev1alpha1.ConditionLicensed, metav1.ConditionTrue, releasev1alpha1.ReasonLicenseGranted, answer.Message)}
		}
		reason := releasev1alpha1.ReasonLicenseUnavailable
		if answer.Verdict == license.Denied {
			reason = releasev1alpha1.ReasonLicenseDenied
		}
		verdict := release.Verdict{
			Condition: release.Condition(releasev1alpha1.ConditionLicensed, metav1.ConditionFalse, reason, answer.Message),
			Blockers:  []release.Blocker{{Reason: reason, Message: answer.Message}},
		}
		if !in.Blocked {
			// If another blocker holds the change, its end triggers the next question.
			verdict.RequeueAfter = controller.Jitter(retry)
		}
		return verdict
	}
}

// keepLicense keeps the last answer while no change is to be rolled out. It removes the
// refusal of a change that is no longer desired.
func keepLicense(in release.GateInput) release.Verdict {
	last := meta.FindStatusCondition(in.Status.Conditions, releasev1alpha1.ConditionLicensed)
	switch {
	case last == nil || !in.Desired.Known:
		return release.Verdict{}
	case last.Status != metav1.ConditionTrue:
		return release.Verdict{Remove: []string{last.Type}}
	default:
		return release.Verdict{Condition: release.Condition(last.Type, last.Status, last.Reason, last.Message)}
	}
}
