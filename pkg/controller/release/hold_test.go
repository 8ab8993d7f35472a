// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/expect"
)

func TestHold(t *testing.T) {
	status := func(change ...func(*sample)) releasev1alpha1.ReleaseStatus {
		app := newSample(condition(apimeta.ConditionReady, "False", apimeta.ReasonProgressing))
		app.Status.ObservedGeneration = 1
		app.Status.DeployedRelease = &releasev1alpha1.DeployedRelease{Name: "a", Revision: 1}
		for _, c := range change {
			c(app)
		}
		return app.Status
	}
	heals := condition(apimeta.ConditionReady, "True", apimeta.ReasonHealthy)
	fails := condition(releasev1alpha1.ConditionFailed, "True", releasev1alpha1.ReasonUpgradeFailed)
	upgrades := func(app *sample) { app.Status.DeployedRelease.Revision = 2 }
	tests := []struct {
		name          string
		written, next releasev1alpha1.ReleaseStatus
		want          time.Duration
	}{
		{"rollout continues", status(), status(), settleTime},
		{"rollout begins without a new revision", status(heals), status(), settleTime},
		{"a new revision", status(heals), status(upgrades), newRevisionTime},
		{"the first revision", releasev1alpha1.ReleaseStatus{ObservedGeneration: -1}, status(), newRevisionTime},
		{"a new generation of the same revision", status(heals), status(func(app *sample) { app.Status.ObservedGeneration = 2 }), newRevisionTime},
		{"healthy", status(), status(heals), 0},
		{"unhealthy", status(), status(condition(apimeta.ConditionReady, "False", apimeta.ReasonUnhealthy)), 0},
		{"recovered failure", status(fails), status(), 0},
		{"not deployed yet", releasev1alpha1.ReleaseStatus{}, status(func(app *sample) { app.Status.DeployedRelease = nil }), 0},
		{"no conditions", status(), releasev1alpha1.ReleaseStatus{}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "time", test.want, Hold(test.written, test.next))
		})
	}
}
