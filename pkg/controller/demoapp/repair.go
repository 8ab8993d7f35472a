// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/status"
	"github.com/example/demoapp-controller/pkg/helm"
)

// isRepair reports whether the action keeps what is deployed as it is.
func isRepair(action helm.Action) bool {
	return action == helm.ActionRepair || action == helm.ActionReapply
}

// beginRepairFailure says that a repair failed and, where trying again cannot help,
// that the release is not deployed as it should be. What is said of an install or
// upgrade that failed stays: no repair makes up for it.
func (p *pass) beginRepairFailure(reason, message string, terminal bool) {
	if attemptFailed(p.app.Status) {
		return
	}
	p.conditions().Set(releasev1alpha1.ConditionFailed, metav1.ConditionTrue, reason, message)
	if terminal {
		p.setDeployed(metav1.ConditionFalse, reason, message)
	}
}

// endRepairFailure takes back what beginRepairFailure said, also while a change waits
// that would say anew how the release is.
func (p *pass) endRepairFailure() {
	conditions := p.app.Status.Conditions
	failed, deployed := meta.FindStatusCondition(conditions, releasev1alpha1.ConditionFailed), meta.FindStatusCondition(conditions, releasev1alpha1.ConditionDeployed)
	if failed == nil || attemptFailed(p.app.Status) {
		return
	}
	if deployed != nil && deployed.Status == metav1.ConditionFalse && deployed.Reason == failed.Reason {
		reason, message := deployedState(*p.app.Status.DeployedRelease)
		p.setDeployed(metav1.ConditionTrue, reason, message)
	}
	p.conditions().Remove(releasev1alpha1.ConditionFailed)
}

// setDeployed says how the release is that is deployed. It goes on speaking of the
// generation that this one was made of, see lastGeneration.
func (p *pass) setDeployed(is metav1.ConditionStatus, reason, message string) {
	generation := p.app.Generation
	if last := meta.FindStatusCondition(p.app.Status.Conditions, releasev1alpha1.ConditionDeployed); last != nil {
		generation = last.ObservedGeneration
	}
	status.For(&p.app.Status.Conditions, generation, p.now).Set(releasev1alpha1.ConditionDeployed, is, reason, message)
}

// attemptFailed reports whether Failed speaks of an install, an upgrade or the health
// of a revision, and not of a repair. Most reasons tell; those that a repair can have
// as well are told apart by what came before.
func attemptFailed(s v1alpha1.DemoAppStatus) bool {
	failed := meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionFailed)
	if failed == nil {
		return false
	}
	switch failed.Reason {
	case releasev1alpha1.ReasonRepairFailed:
		return false
	case releasev1alpha1.ReasonInstallFailed, releasev1alpha1.ReasonUpgradeFailed, releasev1alpha1.ReasonRollbackFailed, releasev1alpha1.ReasonHealthTimeout:
		return true
	}
	if meta.IsStatusConditionTrue(s.Conditions, releasev1alpha1.ConditionRemediated) {
		return true
	}
	deployed := meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionDeployed)
	if deployed == nil || deployed.Status == metav1.ConditionTrue {
		return false
	}
	for _, entry := range s.History {
		if entry.Action != releasev1alpha1.HistoryRepair {
			// One that failed before Deployed last was True is over.
			gaveUp := entry.Outcome == releasev1alpha1.HistoryFailed || entry.Action == releasev1alpha1.HistoryRollback
			return gaveUp && entry.Generation >= deployed.ObservedGeneration
		}
	}
	return false
}
