// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// Status has the common fields of the status of any kind of the operator. Release is zero for kinds
// without a release, and for a release that was not installed yet.
type Status struct {
	Conditions         []metav1.Condition
	ObservedGeneration int64
	Release            releasev1alpha1.ReleaseStatus
}

// StatusOf reads the status of an object. Fields of another shape count as absent, because
// watches.yaml serves CRDs whose status is free.
func StatusOf(object *unstructured.Unstructured) Status {
	content, _, _ := unstructured.NestedMap(object.Object, "status")
	var status Status
	var whole releasev1alpha1.ReleaseStatus
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, &whole) == nil {
		status.Release = whole
		status.Conditions, status.ObservedGeneration = whole.Conditions, whole.ObservedGeneration
		return status
	}
	var common struct {
		Conditions         []metav1.Condition `json:"conditions"`
		ObservedGeneration int64              `json:"observedGeneration"`
	}
	for field, value := range content {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{field: value}, &common)
	}
	status.Conditions, status.ObservedGeneration = common.Conditions, common.ObservedGeneration
	return status
}

// Condition returns a condition; nil if the object does not have it.
func (s Status) Condition(conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(s.Conditions, conditionType)
}

// True reports whether a condition is True.
func (s Status) True(conditionType string) bool {
	return meta.IsStatusConditionTrue(s.Conditions, conditionType)
}

// Summary is one line about an object.
type Summary struct {
	Reference

	// Ready is the status of the condition Ready: True, False or Unknown. It is Unknown while the
	// operator has not seen the object's generation.
	Ready metav1.ConditionStatus
	// Reason and Message are from the condition Ready.
	Reason, Message string
	Stalled         bool
	Drifted         bool
	Suspended       bool
	Deleting        bool
	// Revision is the deployed revision of a release, 0 for none, and Chart its chart, as
	// name@version.
	Revision int64
	Chart    string
	Created  time.Time
}

// Summarize returns the summary of an object.
func Summarize(object *unstructured.Unstructured) Summary {
	status := StatusOf(object)
	s := Summary{
		Reference: ReferenceOf(object), Ready: metav1.ConditionUnknown, Created: object.GetCreationTimestamp().Time,
		Stalled:   status.True(apimeta.ConditionStalled),
		Drifted:   status.True(releasev1alpha1.ConditionDrifted),
		Suspended: status.True(apimeta.ConditionSuspended),
		Deleting:  object.GetDeletionTimestamp() != nil,
	}
	if ready := status.Condition(apimeta.ConditionReady); ready == nil {
		s.Reason, s.Message = ReasonUnseen, "the operator has not reported about the object yet"
	} else {
		s.Reason, s.Message = ready.Reason, ready.Message
		if s.Ready = ready.Status; ready.ObservedGeneration < object.GetGeneration() && s.Ready == metav1.ConditionTrue {
			s.Ready = metav1.ConditionUnknown
			s.Reason, s.Message = ReasonUnseen, "the operator has not seen the last change of the spec yet"
		}
	}
	if deployed := status.Release.DeployedRelease; deployed != nil {
		s.Revision = deployed.Revision
		if deployed.Chart != "" { // The operators of Helm 3 write only the name of the release.
			s.Chart = deployed.Chart + "@" + deployed.ChartVersion
		}
	}
	return s
}

// ReasonUnseen is the reason of a summary while the operator has not reported about the object, or
// about its newest generation.
const ReasonUnseen = "NotObserved"
