// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

func TestWhy(t *testing.T) {
	tests := []struct {
		name   string
		change helm.Change
		want   controller.Reason
	}{
		{"object", helm.ObjectChanged, controller.Drift},
		{"record", helm.RecordChanged, controller.Drift},
		{"health", helm.HealthChanged, controller.HealthChange},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "reason", test.want, reasonOf(test.change))
		})
	}
}
