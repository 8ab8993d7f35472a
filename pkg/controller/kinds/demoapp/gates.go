// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
)

// measuredGates are the gates of DemoApps for metrics, in addition to the gates of every release.
func measuredGates() []kind.Gate {
	return []kind.Gate{
		{Name: "validation", Condition: v1alpha1.ConditionValidated, Status: metav1.ConditionFalse, NeedsUser: true},
	}
}
