// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/expect"
)

// checkConditions checks the rules that hold for all conditions of an app. Deployed,
// Failed and Drifted may have an earlier generation until the new one is observed. During
// deletion, all conditions may have an earlier generation.
func checkConditions(t *testing.T, app *v1alpha1.DemoApp) {
	t.Helper()
	older := []string{releasev1alpha1.ConditionDeployed, releasev1alpha1.ConditionFailed, releasev1alpha1.ConditionDrifted}
	ends := []string{v1alpha1.ReasonAuditFailed, releasev1alpha1.ReasonUninstallFailed, apimeta.ReasonFinalizerFailed}
	for _, c := range app.Status.Conditions {
		mayBeOlder := slices.Contains(older, c.Type) || app.DeletionTimestamp != nil && !slices.Contains(ends, c.Reason)
		if c.ObservedGeneration < 1 || c.ObservedGeneration > app.Generation || !mayBeOlder && c.ObservedGeneration != app.Generation {
			t.Errorf("condition %s has generation %d, want %d", c.Type, c.ObservedGeneration, app.Generation)
		}
		if c.Reason == "" || c.Message == "" || c.LastTransitionTime.IsZero() {
			t.Errorf("condition %s is incomplete: %+v", c.Type, c)
		}
	}
	is := func(conditionType string) bool {
		return meta.IsStatusConditionTrue(app.Status.Conditions, conditionType)
	}
	ready := meta.FindStatusCondition(app.Status.Conditions, apimeta.ConditionReady)
	if ready == nil {
		t.Error("condition Ready is missing")
	}
	if is(apimeta.ConditionStalled) && is(apimeta.ConditionReconciling) {
		t.Error("Stalled and Reconciling at once")
	}
	if is(apimeta.ConditionReady) == (is(apimeta.ConditionStalled) || is(apimeta.ConditionReconciling)) {
		t.Errorf("Ready is %+v beside Stalled=%t, Reconciling=%t", ready, is(apimeta.ConditionStalled), is(apimeta.ConditionReconciling))
	}
	for _, onlyTrue := range []string{apimeta.ConditionStalled, apimeta.ConditionReconciling, releasev1alpha1.ConditionFailed, releasev1alpha1.ConditionDrifted, releasev1alpha1.ConditionSuspended, releasev1alpha1.ConditionUpgradeHeld} {
		if meta.FindStatusCondition(app.Status.Conditions, onlyTrue) != nil && !is(onlyTrue) {
			t.Errorf("condition %s is present but not True", onlyTrue)
		}
	}
	if app.Status.ObservedGeneration > app.Generation {
		t.Errorf("observedGeneration %d is beyond generation %d", app.Status.ObservedGeneration, app.Generation)
	}
}

// checkSecrecy checks that errors, events, statuses and audit records do not show the
// key.
func (w *world) checkSecrecy(err error) {
	w.t.Helper()
	said := []string{fmt.Sprint(err), strings.Join(w.recorder.All(), "\n")}
	for _, name := range []string{"a", "b"} {
		if app := w.app(name); app != nil {
			said = append(said, asJSON(w.t, app.Status))
		}
	}
	for _, record := range w.records() {
		said = append(said, asJSON(w.t, record))
		for _, value := range record.Data {
			said = append(said, value)
		}
	}
	for _, text := range said {
		if showsKey(text) {
			w.t.Errorf("shows the key: %s", text)
		}
	}
}

// showsKey reports whether a text contains the key, in any form in which a message or a
// Secret may write it.
func showsKey(text string) bool {
	quoted := strings.Trim(fmt.Sprintf("%q", plainKey), `"`)
	asJSON, _ := json.Marshal(plainKey) //nolint:errchkjson // A string always has a form in JSON.
	forms := []string{plainKey, quoted, strings.Trim(string(asJSON), `"`), base64.StdEncoding.EncodeToString([]byte(plainKey))}
	return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, form) })
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	expect.NoError(t, err)
	return string(data)
}
