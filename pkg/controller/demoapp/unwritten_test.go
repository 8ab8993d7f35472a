// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

var progresses = condition(apimeta.ConditionReady, "False", apimeta.ReasonProgressing)

func TestPatience(t *testing.T) {
	status := func(change ...func(*v1alpha1.DemoApp)) v1alpha1.DemoAppStatus {
		app := newApp("a", isUp, progresses)
		app.Status.ObservedGeneration = 1
		app.Status.DeployedRelease = &releasev1alpha1.DeployedRelease{Name: "a", Revision: 1}
		for _, c := range change {
			c(app)
		}
		return app.Status
	}
	heals := condition(apimeta.ConditionReady, "True", apimeta.ReasonHealthy)
	fails := condition(releasev1alpha1.ConditionFailed, "True", releasev1alpha1.ReasonUpgradeFailed)
	upgrades := func(app *v1alpha1.DemoApp) { app.Status.DeployedRelease.Revision = 2 }
	tests := []struct {
		name          string
		written, next v1alpha1.DemoAppStatus
		want          time.Duration
	}{
		{"a rollout gets on", status(), status(), settleTime},
		{"a rollout begins by itself", status(heals), status(), settleTime},
		{"a new revision", status(heals), status(upgrades), newRevisionTime},
		{"the first revision", v1alpha1.DemoAppStatus{ReleaseStatus: releasev1alpha1.ReleaseStatus{ObservedGeneration: -1}}, status(), newRevisionTime},
		{"a new generation of the same revision", status(heals), status(func(app *v1alpha1.DemoApp) { app.Status.ObservedGeneration = 2 }), newRevisionTime},
		{"healthy", status(), status(heals), 0},
		{"unhealthy", status(), status(condition(apimeta.ConditionReady, "False", apimeta.ReasonUnhealthy)), 0},
		{"a failure that is over", status(fails), status(), 0},
		{"not deployed yet", v1alpha1.DemoAppStatus{}, status(func(app *v1alpha1.DemoApp) { app.Status.DeployedRelease = nil }), 0},
		{"nothing is said", status(), v1alpha1.DemoAppStatus{}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "patience", test.want, patience(test.written, test.next))
		})
	}
}

func TestUnwritten(t *testing.T) {
	look := func(uid types.UID, after time.Duration, replicas int32) *pass {
		app := newApp("a", isUp, progresses)
		app.UID = uid
		app.Status.DeployedRelease = &releasev1alpha1.DeployedRelease{Name: "a", Revision: 1}
		p := &pass{observed: app, app: app.DeepCopy(), now: began.Add(after)}
		p.app.Status.ReadyReplicas = replicas
		return p
	}
	steps := []struct {
		name   string
		pass   *pass
		forget bool
		want   time.Duration
	}{
		{"nothing to tell", look("uid-1", 0, 0), false, 0},
		{"first", look("uid-1", 0, 1), false, settleTime},
		{"later", look("uid-1", settleTime/4, 2), false, settleTime * 3 / 4},
		{"long enough", look("uid-1", settleTime, 3), true, 0},
		{"after it was written", look("uid-1", settleTime, 4), false, settleTime},
		{"a successor of the same name", look("uid-2", 2*settleTime, 5), false, settleTime},
	}
	var u unwritten
	for _, step := range steps {
		want := step.pass.app.Status.DeepCopy()
		equal(t, step.name, step.want, u.hold(step.pass, step.pass.now))
		resumed := look(step.pass.app.UID, 0, 0)
		u.resume(resumed)
		if step.want > 0 {
			equal(t, step.name+": resumed", *want, resumed.app.Status)
		}
		stranger := look("uid-3", 0, 0)
		u.resume(stranger)
		equal(t, step.name+": resumed by a stranger", int32(0), stranger.app.Status.ReadyReplicas)
		if step.forget {
			u.forget(keyOf("a"))
			resumed = look(step.pass.app.UID, 0, 0)
			u.resume(resumed)
			equal(t, step.name+": resumed when forgotten", int32(0), resumed.app.Status.ReadyReplicas)
		}
	}
}
