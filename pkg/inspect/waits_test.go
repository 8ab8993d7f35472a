// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
)

func TestWaitsFor(t *testing.T) {
	tests := []struct {
		name, want string
		summary    inspect.Summary
	}{
		{"ready object", "", inspect.Summary{Ready: metav1.ConditionTrue, Message: `Deployment "web" is ready`}},
		{"suspended object", "", inspect.Summary{Ready: metav1.ConditionFalse, Suspended: true, Message: `Deployment "web"`}},
		{"object that the operator has not seen", "operator", inspect.Summary{Ready: metav1.ConditionUnknown, Reason: inspect.ReasonUnseen}},
		{"closed window", "upgrade window", inspect.Summary{Ready: metav1.ConditionFalse, Reason: "OutsideWindow"}},
		{"first of several objects", "Deployment/web", inspect.Summary{Ready: metav1.ConditionFalse, Message: `Deployment "web": 0/1; Service "web"`}},
		{"object of a release", "Deployment/web", inspect.Summary{Ready: metav1.ConditionFalse, Message: `Deployment web: Available: 0/1`}},
		{"object of another namespace", "Secret/keys", inspect.Summary{Ready: metav1.ConditionFalse, Message: `Secret infra/keys does not exist`}},
		{"quota", "ResourceQuota/few", inspect.Summary{Ready: metav1.ConditionFalse, Message: `ConfigMap "web": exceeded quota: few, requested: a=1`}},
		{"deletion", "Service/web", inspect.Summary{Ready: metav1.ConditionTrue, Deleting: true, Message: `Service "web" is being deleted`}},
		{"message without an object", "", inspect.Summary{Ready: metav1.ConditionFalse, Message: `Values "web" are invalid`}},
	}
	cluster, _ := treeCluster(t, release)
	waitsFor, err := cluster.WaitsFor(t.Context())
	expect.NoError(t, err)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect.Equal(t, "text", tt.want, waitsFor(tt.summary))
		})
	}
}
