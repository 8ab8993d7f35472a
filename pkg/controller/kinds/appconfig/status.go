// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package appconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/example/demoapp-controller/pkg/apis/config/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kinds/appconfig/reload"
)

// summarizeRendering sets the condition Rendered. An error also stalls the AppConfig.
func summarizeRendering(p *pass, err error) {
	if err != nil {
		p.Conditions().Set(configv1.ConditionRendered, metav1.ConditionFalse, configv1.ReasonRenderFailed, err.Error())
		p.Conditions().MarkStalled(configv1.ReasonRenderFailed, err.Error())
		return
	}
	p.Conditions().Set(configv1.ConditionRendered, metav1.ConditionTrue, configv1.ReasonRendered,
		fmt.Sprintf("%d templates were rendered for %s", len(p.Object.Spec.Config), p.Object.Spec.Environment))
}

// summarize sets the conditions from the result of Ensure, and returns its error.
func summarize(p *pass, state child.State, err error) error {
	var conflict *child.OwnershipConflictError
	if errors.As(err, &conflict) {
		err = fmt.Errorf("spec.application: %w", err)
	}
	child.Report(p, state, err)
	return err
}

// summarizeReload sets the condition Reloaded, and Ready if Reloaded is not True, which it returns. Once
// all workloads have rolled, their later health does not change it.
func summarizeReload(p *pass, rolled []reload.Rolled, err error) bool {
	conditions, status, reason := p.Conditions(), metav1.ConditionFalse, configv1.ReasonReloadFailed
	worst, message := reload.Summarize(rolled, meta.IsStatusConditionTrue(p.Object.Status.Conditions, configv1.ConditionReloaded))
	switch {
	case err != nil:
		message = "Some workloads are not rolled yet: " + strings.ReplaceAll(err.Error(), "\n", "; ")
		conditions.MarkReconciling(reason, message)
	case worst == kstatus.FailedStatus:
		reason = configv1.ReasonWorkloadFailed
		conditions.MarkStalled(reason, message)
	case worst == kstatus.InProgressStatus:
		reason = configv1.ReasonReloading
		conditions.MarkReconciling(apimeta.ReasonProgressing, message)
	default:
		status, reason = metav1.ConditionTrue, configv1.ReasonReloaded
	}
	conditions.Set(configv1.ConditionReloaded, status, reason, message)
	return status == metav1.ConditionTrue
}

func transitions(before, after *configv1.AppConfig) []event.Event {
	is, was := &after.Status, &before.Status
	events := child.Events(was.Children, is.Children, was.Conditions, is.Conditions)
	var rolled []string
	for _, id := range is.Reloaded {
		if was.ConfigHash != is.ConfigHash || !slices.Contains(was.Reloaded, id) {
			rolled = append(rolled, id)
		}
	}
	if len(rolled) > 0 {
		events = append(events, event.Normal(configv1.ReasonReloaded, "Reconcile", "Rolled "+strings.Join(rolled, ", ")))
	}
	return events
}
