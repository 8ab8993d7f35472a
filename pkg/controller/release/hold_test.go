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

// TestSourcesChanged: after a restart, the status distinguishes a change of the object's Secrets from a
// change of all objects.
func TestSourcesChanged(t *testing.T) {
	now := Facts{Desired: Desired{Sources: "secret/2"}}
	for name, test := range map[string]struct {
		settled, stored string
		want            bool
	}{
		"settled in this process":         {settled: "secret/2", stored: sourcesDigest("secret/1")},
		"changed in this process":         {settled: "secret/1", stored: sourcesDigest("secret/2"), want: true},
		"unchanged while away":            {stored: sourcesDigest("secret/2")},
		"changed while away":              {stored: sourcesDigest("secret/1"), want: true},
		"status of an earlier version":    {},
		"status of an object without any": {stored: sourcesDigest("")},
	} {
		t.Run(name, func(t *testing.T) {
			l := &Lifecycle{}
			if test.settled != "" {
				l.sources.Set(now.Key, test.settled)
			}
			expect.Equal(t, "changed", test.want, l.sourcesChanged(now, releasev1alpha1.ReleaseStatus{Sources: test.stored}))
		})
	}
}

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
	reads := func(sources string) func(*sample) { return func(app *sample) { app.Status.Sources = sources } }
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
		{"other versions of the sources", status(heals, reads("1")), status(heals, reads("2")), sourcesTime},
		{"other versions of the sources, and healthy", status(reads("1")), status(heals, reads("2")), 0},
		{"healthy", status(), status(heals), 0},
		{"unhealthy", status(), status(condition(apimeta.ConditionReady, "False", apimeta.ReasonUnhealthy)), 0},
		{"recovered failure", status(fails), status(), 0},
		{"not deployed yet", releasev1alpha1.ReleaseStatus{}, status(func(app *sample) { app.Status.DeployedRelease = nil }), 0},
		{"no conditions", status(), releasev1alpha1.ReleaseStatus{}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "time", test.want, hold(test.written, test.next))
		})
	}
}
