// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/license"
	"github.com/example/demoapp-controller/pkg/helm"
)

// Licenses is what the controller needs of a license server.
type Licenses interface {
	// Ask says whether the subject may be rolled out. With anew it does not go by
	// an earlier answer.
	Ask(ctx context.Context, subject license.Subject, anew bool) license.Answer
}

// askLicense is the gate of the license server: it has to agree to an install
// or upgrade. What runs is not its business.
func (c *Controller) askLicense(ctx context.Context, p *pass) {
	if c.licenses == nil {
		p.conditions().Remove(releasev1alpha1.ConditionLicensed)
		return
	}
	if wanted := p.plan.Wanted.Action; wanted != helm.ActionInstall && wanted != helm.ActionUpgrade {
		p.keepLicense()
		return
	}
	answer := c.licenses.Ask(ctx, license.Subject{
		Namespace: p.app.Namespace, Name: p.app.Name, Image: orElse(p.app.Spec.Image, defaultImage),
	}, p.requested)
	if answer.Verdict == license.Granted {
		p.conditions().Set(releasev1alpha1.ConditionLicensed, metav1.ConditionTrue, releasev1alpha1.ReasonLicenseGranted, answer.Message)
		return
	}
	reason := releasev1alpha1.ReasonLicenseUnavailable
	if answer.Verdict == license.Denied {
		reason = releasev1alpha1.ReasonLicenseDenied
	}
	p.conditions().Set(releasev1alpha1.ConditionLicensed, metav1.ConditionFalse, reason, answer.Message)
	if len(p.blockers) == 0 {
		// Where something else is in the way too, its end brings the next question.
		p.next = min(p.next, controller.Jitter(c.licenseRetry))
	}
	p.blockers = append(p.blockers, blocker{reason: reason, message: answer.Message})
}

// keepLicense leaves what the server said last, while nothing is to be rolled
// out. A no to something that is no longer wanted is of no interest.
func (p *pass) keepLicense() {
	last := meta.FindStatusCondition(p.app.Status.Conditions, releasev1alpha1.ConditionLicensed)
	switch {
	case last == nil || p.wanted == nil:
	case last.Status != metav1.ConditionTrue:
		p.conditions().Remove(releasev1alpha1.ConditionLicensed)
	default:
		p.conditions().Set(last.Type, last.Status, last.Reason, last.Message)
	}
}
