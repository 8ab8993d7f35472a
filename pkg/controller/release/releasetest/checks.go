// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasetest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// CheckConditions checks the rules that hold for all conditions of a release kind. Deployed, Failed,
// Drifted and Adjusted may have an earlier generation until the new one is observed. During deletion, all
// conditions may have an earlier generation, except for those with a reason in current.
func CheckConditions(t *testing.T, object metav1.Object, status releasev1alpha1.ReleaseStatus, current ...string) {
	t.Helper()
	older := []string{
		releasev1alpha1.ConditionDeployed, releasev1alpha1.ConditionFailed, releasev1alpha1.ConditionDrifted, releasev1alpha1.ConditionAdjusted,
	}
	generation := object.GetGeneration()
	for _, c := range status.Conditions {
		mayBeOlder := slices.Contains(older, c.Type) || object.GetDeletionTimestamp() != nil && !slices.Contains(current, c.Reason)
		if c.ObservedGeneration < 1 || c.ObservedGeneration > generation || !mayBeOlder && c.ObservedGeneration != generation {
			t.Errorf("condition %s has generation %d, want %d", c.Type, c.ObservedGeneration, generation)
		}
		if c.Reason == "" || c.Message == "" || c.LastTransitionTime.IsZero() {
			t.Errorf("condition %s is incomplete: %+v", c.Type, c)
		}
	}
	is := func(conditionType string) bool { return meta.IsStatusConditionTrue(status.Conditions, conditionType) }
	ready := meta.FindStatusCondition(status.Conditions, apimeta.ConditionReady)
	if ready == nil {
		t.Error("condition Ready is missing")
	}
	if is(apimeta.ConditionStalled) && is(apimeta.ConditionReconciling) {
		t.Error("Stalled and Reconciling at once")
	}
	if is(apimeta.ConditionReady) == (is(apimeta.ConditionStalled) || is(apimeta.ConditionReconciling)) {
		t.Errorf("Ready is %+v beside Stalled=%t, Reconciling=%t", ready, is(apimeta.ConditionStalled), is(apimeta.ConditionReconciling))
	}
	for _, onlyTrue := range []string{
		apimeta.ConditionStalled, apimeta.ConditionReconciling, releasev1alpha1.ConditionFailed, releasev1alpha1.ConditionDrifted,
		releasev1alpha1.ConditionSuspended, releasev1alpha1.ConditionUpgradeHeld,
	} {
		if meta.FindStatusCondition(status.Conditions, onlyTrue) != nil && !is(onlyTrue) {
			t.Errorf("condition %s is present but not True", onlyTrue)
		}
	}
	if status.ObservedGeneration > generation {
		t.Errorf("observedGeneration %d is beyond generation %d", status.ObservedGeneration, generation)
	}
}

// Conditions returns expected conditions from pairs of a type and its status and reason, as
// [ConditionsOf] returns them. It adds Initialized.
func Conditions(pairs ...string) map[string]string {
	want := map[string]string{releasev1alpha1.ConditionInitialized: "True " + releasev1alpha1.ReasonChartLoaded}
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	return want
}

// ConditionsOf returns the status and the reason of each condition, by type.
func ConditionsOf(conditions []metav1.Condition) map[string]string {
	found := map[string]string{}
	for _, c := range conditions {
		found[c.Type] = string(c.Status) + " " + c.Reason
	}
	return found
}

// Message returns the message of a condition, or "" if the condition is absent.
func Message(conditions []metav1.Condition, conditionType string) string {
	if condition := meta.FindStatusCondition(conditions, conditionType); condition != nil {
		return condition.Message
	}
	return ""
}

// Shows reports whether a text contains a secret, in any form in which a message, JSON or a Secret
// may write it.
func Shows(text, secret string) bool {
	asJSON, _ := json.Marshal(secret) //nolint:errchkjson // A string always has a form in JSON.
	forms := []string{secret, fmt.Sprintf("%q", secret), string(asJSON), base64.StdEncoding.EncodeToString([]byte(secret))}
	return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, strings.Trim(form, `"`)) })
}
