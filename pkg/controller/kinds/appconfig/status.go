// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package appconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/example/demoapp-controller/pkg/apis/config/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
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

// summarize sets the conditions from what Ensure and reload left behind, and returns their errors.
func summarize(p *pass, state child.State, err, reloadErr error) error {
	var conflict *child.OwnershipConflictError
	if errors.As(err, &conflict) {
		err = fmt.Errorf("spec.application: %w", err)
	}
	child.Report(p, state, err)
	if err == nil && reloadErr != nil {
		p.Conditions().MarkReconciling(configv1.ReasonReloadFailed,
			"Some workloads are not rolled yet: "+strings.ReplaceAll(reloadErr.Error(), "\n", "; "))
	}
	return errors.Join(err, reloadErr)
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
