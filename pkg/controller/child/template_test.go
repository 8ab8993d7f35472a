// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/test/expect"
)

// database is a StatefulSet of one pod.
func database(image string) *appsv1ac.StatefulSetApplyConfiguration {
	labels := map[string]string{"app": "db"}
	return appsv1ac.StatefulSet("db", "").WithSpec(appsv1ac.StatefulSetSpec().WithReplicas(1).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).
			WithSpec(corev1ac.PodSpec().WithContainers(corev1ac.Container().WithName("db").WithImage(image)))))
}

func (f *family) database() *appsv1.StatefulSet {
	f.t.Helper()
	var found *appsv1.StatefulSet
	f.Act(func() (err error) {
		found, err = f.kube.AppsV1().StatefulSets("ns").Get(context.Background(), "db", metav1.GetOptions{})
		return err
	})
	return found
}

func (f *family) databaseImage() string {
	f.t.Helper()
	return f.database().Spec.Template.Spec.Containers[0].Image
}

// changeDatabase changes the StatefulSet as another client.
func (f *family) changeDatabase(change func(*appsv1.StatefulSet)) {
	f.t.Helper()
	found := f.database()
	change(found)
	f.Act(func() error {
		_, err := f.kube.AppsV1().StatefulSets("ns").Update(context.Background(), found, others)
		return err
	})
}

// upgrade starts a newer operator, which desires these children.
func (f *family) upgrade(desired ...Desired) {
	f.t.Helper()
	f.Stop()
	f.desired = desired
	f.forget()
	f.start()
}

// recordsOfEarlierVersion removes fields that earlier versions of the operator did not record.
func (f *family) recordsOfEarlierVersion(applied ...Desired) {
	f.t.Helper()
	for i, d := range applied {
		whole, err := prepare(f.owner, ownerKind, d)
		expect.NoError(f.t, err)
		f.status.Applied[i].Digest, f.status.Applied[i].Template, f.status.Applied[i].Owner = whole.digest, "", ""
	}
	f.conditions = []metav1.Condition{{Type: apimeta.ConditionReady, Status: metav1.ConditionTrue, Reason: apimeta.ReasonHealthy}}
}

func (f *family) heldReason() string {
	if held := meta.FindStatusCondition(f.conditions, apimeta.ConditionUpgradeHeld); held != nil {
		return string(held.Status) + " " + held.Reason
	}
	return ""
}

func TestDatabaseKeepsTemplate(t *testing.T) {
	const awaits = "True " + childv1alpha1.ReasonAwaitingChange
	tests := map[string]struct {
		happens     func(*family)
		image, held string
		requests    []string
	}{
		"a newer operator": {func(f *family) { f.upgrade(database("db:2")) }, "db:1", awaits, nil},
		"a newer operator, twice": {func(f *family) {
			f.upgrade(database("db:2"))
			f.upgrade(database("db:3"))
		}, "db:1", awaits, nil},
		"a newer operator that also changes a label": {
			func(f *family) { f.upgrade(database("db:2").WithLabels(map[string]string{"tier": "data"})) },
			"db:1", awaits,
			[]string{"patch statefulsets/db"},
		},
		"an operator of an earlier version again": {func(f *family) {
			f.upgrade(database("db:2"))
			f.upgrade(database("db:1"))
		}, "db:1", "", nil},
		"a change of the owner": {func(f *family) {
			f.owner.Generation++
			f.upgrade(database("db:2"))
		}, "db:2", "", []string{"patch statefulsets/db"}},
		"a change of the owner later": {func(f *family) {
			f.upgrade(database("db:2"))
			f.owner.Generation++
			f.desired = []Desired{database("db:3")}
			f.forget()
			f.pass()
		}, "db:3", "", []string{"patch statefulsets/db"}},
		"a change of the owner later that leaves the template": {func(f *family) {
			f.upgrade(database("db:2"))
			f.owner.Generation++
			f.desired = []Desired{database("db:2").WithLabels(map[string]string{"tier": "data"})}
			f.forget()
			f.pass()
		}, "db:1", awaits, []string{"patch statefulsets/db"}},
		"a change of the owner that leaves the template, and another newer operator": {func(f *family) {
			f.upgrade(database("db:2"))
			f.owner.Generation++
			f.pass()
			f.upgrade(database("db:3"))
		}, "db:1", awaits, nil},
		"the annotation, and its removal with a newer operator": {func(f *family) {
			f.owner.Annotations = map[string]string{apimeta.AnnotationForceAt: "now"}
			f.pass()
			f.upgrade(database("db:2"))
			f.owner.Annotations = nil
			f.forget()
			f.pass()
		}, "db:1", awaits, nil},
		"the annotation": {func(f *family) {
			f.upgrade(database("db:2"))
			f.owner.Annotations = map[string]string{apimeta.AnnotationForceAt: "now"}
			f.forget()
			f.pass()
			f.pass()
		}, "db:2", "", []string{"patch statefulsets/db"}},
		"drift of another field": {func(f *family) {
			f.upgrade(database("db:2"))
			f.forget()
			f.changeDatabase(func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32) })
		}, "db:1", awaits, []string{"patch statefulsets/db"}},
		"drift of another field while the operator is away": {func(f *family) {
			f.Stop()
			f.changeDatabase(func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32) })
			f.start()
			f.upgrade(database("db:2"))
		}, "db:1", awaits, nil},
		"drift of the template": {func(f *family) {
			f.upgrade(database("db:2"))
			f.forget()
			f.changeDatabase(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "theirs" })
		}, "db:2", "", []string{"patch statefulsets/db"}},
		"records of an earlier version": {func(f *family) {
			f.recordsOfEarlierVersion(database("db:1"))
			f.upgrade(database("db:2"))
		}, "db:1", awaits, []string{"patch statefulsets/db"}},
		"records of an earlier version, and the same template": {func(f *family) {
			f.recordsOfEarlierVersion(database("db:1"))
			f.upgrade(database("db:1"))
		}, "db:1", "", nil},
		"records of an earlier version, and another label": {func(f *family) {
			f.recordsOfEarlierVersion(database("db:1"))
			f.upgrade(database("db:1").WithLabels(map[string]string{"tier": "data"}))
		}, "db:1", "", []string{"patch statefulsets/db"}},
		"records of an earlier version, and a change of the owner": {func(f *family) {
			f.recordsOfEarlierVersion(database("db:1"))
			f.owner.Generation++
			f.upgrade(database("db:2"))
		}, "db:2", "", []string{"patch statefulsets/db"}},
		"managedFields that another client reset": {func(f *family) {
			f.Stop()
			f.changeDatabase(func(s *appsv1.StatefulSet) {
				s.ManagedFields = []metav1.ManagedFieldsEntry{{}}
				s.Spec.Template.Spec.Containers[0].Image = "theirs"
			})
			f.upgrade(database("db:2"))
		}, "db:2", "", []string{"patch statefulsets/db", "patch statefulsets/db"}},
		"records of an earlier version, and drift of the template while the operator is away": {func(f *family) {
			f.recordsOfEarlierVersion(database("db:1"))
			f.Stop()
			f.changeDatabase(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "theirs" })
			f.upgrade(database("db:2"))
		}, "db:2", "", []string{"patch statefulsets/db"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFamily(t, database("db:1"))

				test.happens(f)

				expect.NoError(t, f.err)
				requests := f.Take()
				f.pass()
				expect.Equal(t, "image", test.image, f.databaseImage())
				expect.Equal(t, "replicas", int32(1), *f.database().Spec.Replicas)
				expect.Equal(t, "UpgradeHeld", test.held, f.heldReason())
				expect.Equal(t, "writes", test.requests, slices.DeleteFunc(requests, func(r string) bool { return r == "get statefulsets/db" }))
			})
		})
	}
}

// scripted is a database with the scripts of an operator of this version, which its pods mount, and the data
// of its owner.
func scripted(version, data string, replicas int32) []Desired {
	set := database("db:1")
	set.Spec.WithReplicas(replicas).Template.WithAnnotations(map[string]string{"scripts": version})
	files := map[string]string{"start.sh": version, "only-" + version: "", "settings": data}
	return []Desired{KeepWithPods(corev1ac.ConfigMap("db-scripts", "").WithData(files), "db", "settings"), set}
}

// TestScriptsStayWithPods: a newer operator does not change files below running databases.
func TestScriptsStayWithPods(t *testing.T) {
	kept := map[string]string{"start.sh": "v1", "only-v1": "", "settings": "a"}
	with := func(files map[string]string, settings string) map[string]string {
		files = maps.Clone(files)
		files["settings"] = settings
		return files
	}
	newer := map[string]string{"start.sh": "v2", "only-v2": "", "settings": "a"}
	tests := map[string]struct {
		happens  func(*family)
		files    map[string]string
		template string
		replicas int32
		held     bool
	}{
		"a newer operator": {func(f *family) { f.upgrade(scripted("v2", "a", 1)...) }, kept, "v1", 1, true},
		"a newer operator that starts again": {func(f *family) {
			f.upgrade(scripted("v2", "a", 1)...)
			f.upgrade(scripted("v2", "a", 1)...)
		}, kept, "v1", 1, true},
		"other settings": {func(f *family) {
			f.upgrade(scripted("v2", "a", 1)...)
			f.owner.Generation++
			f.desired = scripted("v2", "b", 1)
			f.pass()
		}, with(kept, "b"), "v1", 1, true},
		"other settings of the operator": {func(f *family) { f.upgrade(scripted("v2", "b", 1)...) }, with(kept, "b"), "v1", 1, true},
		"another size": {func(f *family) {
			f.upgrade(scripted("v2", "a", 1)...)
			f.owner.Generation++
			f.desired = scripted("v2", "a", 3)
			f.pass()
		}, kept, "v1", 3, true},
		"another image": {func(f *family) {
			f.upgrade(scripted("v2", "a", 1)...)
			f.owner.Generation++
			f.desired = scripted("v2", "a", 1)
			f.desired[1].(*appsv1ac.StatefulSetApplyConfiguration).Spec.Template.Spec.Containers[0].WithImage("db:2")
			f.pass()
		}, newer, "v2", 1, false},
		"the annotation": {func(f *family) {
			f.upgrade(scripted("v2", "a", 1)...)
			f.owner.Annotations = map[string]string{apimeta.AnnotationForceAt: "now"}
			f.pass()
		}, newer, "v2", 1, false},
		"an operator of the earlier version again": {func(f *family) {
			f.upgrade(scripted("v2", "a", 1)...)
			f.upgrade(scripted("v1", "a", 1)...)
		}, kept, "v1", 1, false},
		"a StatefulSet that is retained": {func(f *family) {
			desired := scripted("v2", "a", 1)
			desired[1] = Retain(desired[1])
			f.owner.Generation++
			f.upgrade(desired...)
		}, kept, "v1", 1, true},
		"records of an earlier version": {func(f *family) {
			f.recordsOfEarlierVersion(scripted("v1", "a", 1)...)
			f.upgrade(scripted("v2", "a", 1)...)
		}, kept, "v1", 1, true},
		"records of an earlier version, and a template without a digest of the scripts": {func(f *family) {
			before := scripted("v1", "a", 1)
			before[1].(*appsv1ac.StatefulSetApplyConfiguration).Spec.Template.Annotations = nil
			f.owner.Generation++
			f.upgrade(before...)
			f.owner.Generation--
			f.recordsOfEarlierVersion(before...)
			f.upgrade(scripted("v2", "a", 1)...)
		}, kept, "", 1, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFamily(t, scripted("v1", "a", 1)...)

				test.happens(f)

				expect.NoError(t, f.err)
				f.forget()
				f.pass()
				expect.Equal(t, "requests at rest", []string(nil), f.Take())
				var found *corev1.ConfigMap
				f.Act(func() (err error) {
					found, err = f.kube.CoreV1().ConfigMaps("ns").Get(t.Context(), "db-scripts", metav1.GetOptions{})
					return err
				})
				expect.Equal(t, "files", test.files, found.Data)
				expect.Equal(t, "template", test.template, f.database().Spec.Template.Annotations["scripts"])
				expect.Equal(t, "replicas", test.replicas, *f.database().Spec.Replicas)
				expect.Equal(t, "held", test.held, slices.Contains(f.state.Held, "ConfigMap/db-scripts"))
			})
		})
	}
}

// TestTemplateWaitsForTurn: a Deployment gets a newer template in its turn.
func TestTemplateWaitsForTurn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, deployment("nginx:1"))
		f.limits = rollout.Limits{Active: 1}
		f.start()
		image := func() string {
			found, err := f.kube.AppsV1().Deployments("ns").Get(t.Context(), "web", metav1.GetOptions{})
			expect.NoError(t, err)
			return found.Spec.Template.Spec.Containers[0].Image
		}
		other := cache.NewObjectName("ns", "other")
		f.fleet.Set(other, rollout.Active)

		f.desired = []Desired{deployment("nginx:2")}
		f.pass()
		expect.Equal(t, "image without a turn", "nginx:1", image())
		expect.Equal(t, "UpgradeHeld", "True "+apimeta.ReasonRolloutQueued, f.heldReason())
		expect.Equal(t, "counts", rollout.Counts{Active: 1, Queued: 1}, f.fleet.Counts())

		f.fleet.Set(other, rollout.Settled)
		f.Settle()
		expect.Equal(t, "image in its turn", "nginx:2", image())
		expect.Equal(t, "UpgradeHeld in its turn", "False "+childv1alpha1.ReasonRolloutUnready, f.heldReason())
		expect.Equal(t, "counts in its turn", rollout.Counts{Active: 1}, f.fleet.Counts())
		f.Wait(2 * turnTime)
		expect.Equal(t, "UpgradeHeld after the turn", "", f.heldReason())
		expect.Equal(t, "counts after the turn", rollout.Counts{}, f.fleet.Counts())
	})
}

// gentle is a Deployment whose pods serve on while clients leave them.
func gentle(image string) *appsv1ac.DeploymentApplyConfiguration {
	d := deployment(image).(*appsv1ac.DeploymentApplyConfiguration)
	d.Spec.Template.Spec.WithTerminationGracePeriodSeconds(35).Containers[0].WithLifecycle(corev1ac.Lifecycle().
		WithPreStop(corev1ac.LifecycleHandler().WithSleep(corev1ac.SleepAction().WithSeconds(5))))
	return d
}

// TestShutdownAwaitsChange: pods that run are not restarted only so that they end in another way.
func TestShutdownAwaitsChange(t *testing.T) {
	const awaits = "True " + childv1alpha1.ReasonAwaitingChange
	patched := []string{"patch deployments/web"}
	newer := func(f *family) { f.upgrade(gentle("nginx:1")) }
	tests := map[string]struct {
		happens     func(*family)
		image, held string
		gentle      bool
		requests    []string
	}{
		"a newer operator": {newer, "nginx:1", awaits, false, nil},
		"a newer operator that starts again": {func(f *family) {
			newer(f)
			newer(f)
		}, "nginx:1", awaits, false, nil},
		"a newer operator with another image": {func(f *family) { f.upgrade(gentle("nginx:2")) }, "nginx:2", "", true, patched},
		"a change of the owner": {func(f *family) {
			newer(f)
			f.owner.Generation++
			f.desired = []Desired{gentle("nginx:2")}
			f.forget()
			f.pass()
		}, "nginx:2", "", true, patched},
		"a change of the owner that leaves the template": {func(f *family) {
			newer(f)
			f.owner.Generation++
			f.forget()
			f.pass()
		}, "nginx:1", awaits, false, nil},
		"a change of the owner that leaves the template, while the operator is away": {func(f *family) {
			f.owner.Generation++
			newer(f)
		}, "nginx:1", awaits, false, nil},
		"the annotation": {func(f *family) {
			newer(f)
			f.owner.Annotations = map[string]string{apimeta.AnnotationForceAt: "now"}
			f.forget()
			f.pass()
		}, "nginx:1", "", true, patched},
		"drift of another field": {func(f *family) {
			newer(f)
			f.forget()
			f.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32) })
		}, "nginx:1", awaits, false, patched},
		"records of an earlier version": {func(f *family) {
			f.recordsOfEarlierVersion(deployment("nginx:1"))
			newer(f)
		}, "nginx:1", awaits, false, patched},
		"an operator of an earlier version again": {func(f *family) {
			newer(f)
			f.upgrade(deployment("nginx:1"))
		}, "nginx:1", "", false, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := emptyFamily(t, deployment("nginx:1"))
				f.limits = rollout.Limits{Active: 1}
				f.start()
				f.Take()

				test.happens(f)

				expect.NoError(t, f.err)
				requests := f.Take()
				f.Wait(2 * turnTime)
				pod := f.liveDeployment().Spec.Template.Spec
				expect.Equal(t, "image", test.image, pod.Containers[0].Image)
				expect.Equal(t, "ends gently", test.gentle, pod.Containers[0].Lifecycle != nil && ptr.Deref(pod.TerminationGracePeriodSeconds, 0) == 35)
				expect.Equal(t, "UpgradeHeld", test.held, f.heldReason())
				expect.Equal(t, "writes", test.requests, slices.DeleteFunc(requests, func(r string) bool { return r == "get deployments/web" }))
			})
		})
	}
}

// TestKeepUntilChange: pods keep the template of other circumstances until the owner changes.
func TestKeepUntilChange(t *testing.T) {
	strict := func() *appsv1ac.DeploymentApplyConfiguration {
		d := gentle("nginx:1")
		d.Spec.Template.Spec.WithSecurityContext(corev1ac.PodSecurityContext().WithRunAsNonRoot(true))
		return d
	}
	before := func() *appsv1ac.DeploymentApplyConfiguration {
		d := deployment("nginx:1").(*appsv1ac.DeploymentApplyConfiguration)
		d.Spec.Template.Spec.WithSecurityContext(corev1ac.PodSecurityContext().WithRunAsNonRoot(true))
		return d
	}
	for name, running := range map[string]Desired{"the template": strict(), "the template of an earlier operator": before()} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := emptyFamily(t, running)
				f.start()
				f.Take()

				for range 2 {
					f.upgrade(KeepUntilChange(gentle("nginx:1"), strict()))
				}

				expect.Equal(t, "requests", []string(nil), f.Take())
				expect.Equal(t, "must not be root", true, f.liveDeployment().Spec.Template.Spec.SecurityContext.RunAsNonRoot != nil)
				expect.Equal(t, "UpgradeHeld", "True "+childv1alpha1.ReasonAwaitingChange, f.heldReason())
				scaled := gentle("nginx:1")
				scaled.Spec.WithReplicas(5)
				f.owner.Generation++
				f.desired = []Desired{KeepUntilChange(scaled, strict())}
				f.pass()
				expect.Equal(t, "requests of another size", []string{"get deployments/web", "patch deployments/web"}, f.Take())
				expect.Equal(t, "replicas", int32(5), *f.liveDeployment().Spec.Replicas)
				expect.Equal(t, "must not be root after another size", true, f.liveDeployment().Spec.Template.Spec.SecurityContext.RunAsNonRoot != nil)
				newer := strict()
				newer.Spec.Template.Spec.Containers[0].WithImage("nginx:2")
				f.owner.Generation++
				f.desired = []Desired{KeepUntilChange(gentle("nginx:2"), newer)}
				f.pass()
				expect.Equal(t, "security context after a change", (*corev1.PodSecurityContext)(nil), f.liveDeployment().Spec.Template.Spec.SecurityContext)
			})
		})
	}
}

func (f *family) liveDeployment() *appsv1.Deployment {
	f.t.Helper()
	var found *appsv1.Deployment
	f.Act(func() (err error) {
		found, err = f.kube.AppsV1().Deployments("ns").Get(context.Background(), "web", metav1.GetOptions{})
		return err
	})
	return found
}

// changeDeployment changes the Deployment as another client.
func (f *family) changeDeployment(change func(*appsv1.Deployment)) {
	f.t.Helper()
	found := f.liveDeployment()
	change(found)
	f.Act(func() error {
		_, err := f.kube.AppsV1().Deployments("ns").Update(context.Background(), found, others)
		return err
	})
}

// TestLooserLiveTemplate: fields that another client adds to the live pods do not make a newer template
// strict enough for a turn.
func TestLooserLiveTemplate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, deployment("nginx:1"))
		f.limits = rollout.Limits{Active: 1}
		f.start()
		found, err := f.kube.AppsV1().Deployments("ns").Get(t.Context(), "web", metav1.GetOptions{})
		expect.NoError(t, err)
		found.Spec.Template.Spec.HostNetwork = true
		f.Act(func() error {
			_, err := f.kube.AppsV1().Deployments("ns").Update(t.Context(), found, others)
			return err
		})

		newer := deployment("nginx:2")
		newer.(*appsv1ac.DeploymentApplyConfiguration).Spec.Template.Spec.WithHostNetwork(true)
		f.desired = []Desired{newer}
		f.pass()

		found, err = f.kube.AppsV1().Deployments("ns").Get(t.Context(), "web", metav1.GetOptions{})
		expect.NoError(t, err)
		expect.Equal(t, "image", "nginx:1", found.Spec.Template.Spec.Containers[0].Image)
		expect.Equal(t, "UpgradeHeld", "True "+childv1alpha1.ReasonAwaitingChange, f.heldReason())

		f.upgrade(newer)
		expect.Equal(t, "requests after a restart", []string(nil), f.Take())
		expect.Equal(t, "UpgradeHeld after a restart", "True "+childv1alpha1.ReasonAwaitingChange, f.heldReason())
	})
}

func TestJudgeTurn(t *testing.T) {
	unhealthy := Verdict{Health: kstatus.FailedStatus, Reason: apimeta.ReasonUnhealthy}
	refused := Verdict{Health: kstatus.FailedStatus, Reason: apimeta.ReasonRefused}
	progressing, current := Verdict{Health: kstatus.InProgressStatus}, Verdict{Health: kstatus.CurrentStatus}
	tests := map[string]struct {
		was     rollout.Standing
		healthy bool
		verdict Verdict
		left    time.Duration
		want    rollout.Standing
	}{
		"no turn":                       {rollout.Settled, true, progressing, 0, rollout.Settled},
		"waited until now":              {rollout.Due, true, progressing, time.Minute, rollout.Settled},
		"pods start":                    {rollout.Active, true, progressing, time.Minute, rollout.Active},
		"healthy":                       {rollout.Active, true, current, time.Minute, rollout.Settled},
		"failed":                        {rollout.Active, true, unhealthy, time.Minute, rollout.Failed},
		"not healthy in time":           {rollout.Active, true, progressing, 0, rollout.Failed},
		"another child is refused":      {rollout.Active, true, refused, time.Minute, rollout.Active},
		"not ready before":              {rollout.Active, false, progressing, time.Minute, rollout.Active},
		"not ready before, failed":      {rollout.Active, false, unhealthy, time.Minute, rollout.Settled},
		"not ready before, nor in time": {rollout.Active, false, progressing, 0, rollout.Settled},
		"failed, and starts again":      {rollout.Failed, true, progressing, time.Minute, rollout.Failed},
		"recovered":                     {rollout.Failed, true, current, -time.Hour, rollout.Settled},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expect.Equal(t, "standing", test.want, judgeTurn(test.was, test.healthy, test.verdict, test.left))
		})
	}
}

func TestLessStrict(t *testing.T) {
	restricted := func() corev1.PodSpec {
		return corev1.PodSpec{
			AutomountServiceAccountToken: new(bool),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{Name: "web", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(bool), ReadOnlyRootFilesystem: ptr.To(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}}},
		}
	}
	container := func(change func(*corev1.SecurityContext)) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { change(s.Containers[0].SecurityContext) }
	}
	tests := map[string]struct {
		change func(*corev1.PodSpec)
		want   bool
	}{
		"nothing":                  {func(*corev1.PodSpec) {}, false},
		"another image":            {func(s *corev1.PodSpec) { s.Containers[0].Image = "web:2" }, false},
		"a user":                   {func(s *corev1.PodSpec) { s.SecurityContext.RunAsUser = ptr.To[int64](101) }, false},
		"may be root":              {func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = nil }, true},
		"no seccomp profile":       {func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = nil }, true},
		"the network of the node":  {func(s *corev1.PodSpec) { s.HostNetwork = true }, true},
		"a token":                  {func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = nil }, true},
		"a ServiceAccount":         {func(s *corev1.PodSpec) { s.ServiceAccountName = "admin" }, true},
		"privileged":               {container(func(c *corev1.SecurityContext) { c.Privileged = ptr.To(true) }), true},
		"privilege escalation":     {container(func(c *corev1.SecurityContext) { c.AllowPrivilegeEscalation = nil }), true},
		"a writable root":          {container(func(c *corev1.SecurityContext) { c.ReadOnlyRootFilesystem = nil }), true},
		"a capability":             {container(func(c *corev1.SecurityContext) { c.Capabilities.Add = []corev1.Capability{"NET_ADMIN"} }), true},
		"capabilities not dropped": {container(func(c *corev1.SecurityContext) { c.Capabilities = nil }), true},
		"a directory of the node": {func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "logs", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/log"}}}}
		}, true},
		"a port of the node": {func(s *corev1.PodSpec) { s.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }, true},
		"a strict container": {func(s *corev1.PodSpec) {
			added := s.Containers[0]
			added.Name = "exporter"
			s.Containers = append(s.Containers, added)
		}, false},
		"a container with privileges": {func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, corev1.Container{Name: "exporter"})
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			newer := restricted()
			test.change(&newer)
			expect.Equal(t, "less strict", test.want, lessStrict(restricted(), newer))
			expect.Equal(t, "less strict than itself", false, lessStrict(newer, newer))
		})
	}
}
