// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reload_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/appconfig/reload"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/test/expect"
)

var options = reload.Options{
	Label: "example.com/reload", Suffix: "-config", Annotation: "example.com/hash-", FieldManager: "demo-hash",
}

// world watches the workloads of fake clientsets. Its queue notes the ConfigMaps that it is given.
type world struct {
	*controllertest.World

	t         *testing.T
	kube      *controllertest.Kube
	workloads *reload.Workloads
	queue     *controller.Controller
	synced    []controller.NamedSync
}

// Queue implements child.Loop.
func (w *world) Queue() *controller.Controller { return w.queue }

// Await implements child.Loop.
func (w *world) Await(synced ...controller.NamedSync) { w.synced = append(w.synced, synced...) }

// Confirm implements child.Loop.
func (w *world) Confirm(context.Context, metav1.Object) error { return nil }

// ConfirmOnce implements child.Loop.
func (w *world) ConfirmOnce(context.Context, metav1.Object) error { return nil }

// ConditionsOf implements child.Loop.
func (w *world) ConditionsOf(metav1.Object) *[]metav1.Condition { return &[]metav1.Condition{} }

// JoinRollout implements child.Loop.
func (w *world) JoinRollout(func(int64, []metav1.Condition) rollout.Standing, ...kind.Gate) (*rollout.Fleet, error) {
	return nil, nil
}

// Reconcile implements controller.Reconciler. It shows in the journal which ConfigMap was queued.
func (w *world) Reconcile(_ context.Context, key cache.ObjectName, _ controller.Reason) (controller.Result, error) {
	w.Eventf(nil, nil, "queued", key.String(), "", "")
	return controller.Result{}, nil
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kube := controllertest.NewKube()
		w := &world{World: controllertest.NewWorld(t, kube), t: t, kube: kube}
		w.start()
		test(w)
	})
}

func (w *world) start() {
	w.t.Helper()
	w.queue = controller.New(w, controller.Options{Name: "reload"})
	workloads, err := reload.NewWorkloads(w, w.kube, options)
	expect.NoError(w.t, err)
	w.workloads = workloads
	expect.NoError(w.t, workloads.Watch(w, func(namespace, name string) []cache.ObjectName {
		return []cache.ObjectName{cache.NewObjectName(namespace, name)}
	}))
	w.Run(func(stop, lead context.Context) error { return w.queue.Run(stop, lead, w.synced...) })
}

// create creates a workload of each kind with these pods.
func (w *world) create(name string, pod corev1.PodSpec, annotations map[string]string) {
	w.t.Helper()
	w.createLabeled(name, pod, annotations, nil)
}

func (w *world) createLabeled(name string, pod corev1.PodSpec, annotations, labels map[string]string) {
	w.t.Helper()
	meta := metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: pod}
	w.Act(func() error {
		apps := w.kube.AppsV1()
		_, err1 := apps.Deployments("ns").Create(w.t.Context(), &appsv1.Deployment{
			ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template},
		}, metav1.CreateOptions{})
		_, err2 := apps.StatefulSets("ns").Create(w.t.Context(), &appsv1.StatefulSet{
			ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: template},
		}, metav1.CreateOptions{})
		_, err3 := apps.DaemonSets("ns").Create(w.t.Context(), &appsv1.DaemonSet{
			ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template},
		}, metav1.CreateOptions{})
		return errors.Join(err1, err2, err3)
	})
}

// roll calls Roll for the ConfigMap "shop-config".
func (w *world) roll(content reload.Content) []string {
	w.t.Helper()
	content.Namespace, content.Name, content.Hash = "ns", "shop", "new"
	rolled, err := w.workloads.Roll(w.t.Context(), content, time.Now())
	expect.NoError(w.t, err)
	w.Settle()
	var ids []string
	for _, workload := range rolled {
		ids = append(ids, workload.ID)
	}
	return ids
}

// after is a time after the start of the test, in seconds as in a status. Workloads are created in
// the first second.
func after(d time.Duration) *metav1.Time {
	at := metav1.NewTime(time.Now().Add(d)).Rfc3339Copy()
	return &at
}

var fromEnv = corev1.PodSpec{Containers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
	LocalObjectReference: corev1.LocalObjectReference{Name: "shop-config"},
}}}}}}

func TestUses(t *testing.T) {
	reference := corev1.LocalObjectReference{Name: "shop-config"}
	volume := func(source corev1.VolumeSource) corev1.PodSpec {
		return corev1.PodSpec{Volumes: []corev1.Volume{{Name: "other"}, {VolumeSource: source}}}
	}
	variable := corev1.Container{Env: []corev1.EnvVar{
		{Name: "A", Value: "shop-config"},
		{Name: "B", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: reference}}},
	}}
	tests := map[string]struct {
		pod  corev1.PodSpec
		uses bool
	}{
		"a volume": {volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: reference}}), true},
		"a projected volume": {volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{}, {ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: reference}},
		}}}), true},
		"a variable":                         {corev1.PodSpec{Containers: []corev1.Container{{}, variable}}, true},
		"a variable of an init container":    {corev1.PodSpec{InitContainers: []corev1.Container{variable}}, true},
		"all variables":                      {fromEnv, true},
		"all variables of an init container": {corev1.PodSpec{InitContainers: fromEnv.Containers}, true},
		"a Secret of the name":               {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "shop-config"}}), false},
		"another ConfigMap": {volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "shop"},
		}}), false},
		"nothing": {corev1.PodSpec{}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.create("web", test.pod, nil)
				queued := w.Take()

				rolled := w.roll(reload.Content{Changed: after(time.Minute)})

				if !test.uses {
					expect.Equal(t, "queued", []string(nil), queued)
					expect.Equal(t, "rolled", []string(nil), rolled)
					return
				}
				expect.Equal(t, "queued", []string{"event queued ns/shop"}, queued[:1])
				expect.Equal(t, "rolled", []string{"DaemonSet/web", "Deployment/web", "StatefulSet/web"}, rolled)
				expect.Equal(t, "requests", []string{"patch daemonsets/web", "patch deployments/web", "patch statefulsets/web"}, w.Take())
			})
		})
	}
}

func TestRoll(t *testing.T) {
	const annotation = "example.com/hash-shop"
	inBubble := metav1.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *metav1.Time { t := metav1.NewTime(inBubble.Add(d)); return &t }
	tests := map[string]struct {
		annotations map[string]string
		content     reload.Content
		requests    int
		rolled      bool
	}{
		"the first content":            {nil, reload.Content{}, 0, false},
		"older than the content":       {nil, reload.Content{Changed: at(time.Minute)}, 3, true},
		"as old as the content":        {nil, reload.Content{Changed: at(0)}, 3, true},
		"two seconds younger":          {nil, reload.Content{Changed: at(-2 * time.Second)}, 3, true},
		"three seconds younger":        {nil, reload.Content{Changed: at(-3 * time.Second)}, 0, false},
		"younger than the content":     {nil, reload.Content{Changed: at(-time.Hour)}, 0, false},
		"rolled for this content":      {map[string]string{annotation: "new"}, reload.Content{Changed: at(time.Minute)}, 0, true},
		"rolled for earlier content":   {map[string]string{annotation: "old"}, reload.Content{}, 3, true},
		"rolled for another ConfigMap": {map[string]string{"example.com/hash-other": "old"}, reload.Content{}, 0, false},
		"rolled, without annotation":   {nil, reload.Content{Changed: at(time.Minute), Rolled: []string{"DaemonSet/web", "Deployment/web", "StatefulSet/web"}}, 0, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.create("web", fromEnv, test.annotations)
				w.Take()

				rolled := w.roll(test.content)

				expect.Equal(t, "number of requests", test.requests, len(w.Take()))
				expect.Equal(t, "rolled", test.rolled, len(rolled) == 3)
				expect.Equal(t, "rolled again", rolled, w.roll(test.content))
				expect.Equal(t, "number of requests of another pass", 0, len(w.Take()))
			})
		})
	}
}

// TestAnnotationBelongsToAManagerOfItsOwn: a workload may use two ConfigMaps, and an apply for one
// keeps the annotation of the other.
func TestAnnotationBelongsToAManagerOfItsOwn(t *testing.T) {
	inWorld(t, func(w *world) {
		pod := corev1.PodSpec{Containers: []corev1.Container{fromEnv.Containers[0], {EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cart-config"}}},
		}}}}
		w.create("web", pod, nil)
		for _, name := range []string{"shop", "cart"} {
			_, err := w.workloads.Roll(t.Context(), reload.Content{Namespace: "ns", Name: name, Hash: name + "-hash", Changed: after(time.Minute)}, time.Now())
			expect.NoError(t, err)
		}

		found, err := w.kube.AppsV1().Deployments("ns").Get(t.Context(), "web", metav1.GetOptions{})
		expect.NoError(t, err)
		expect.Equal(t, "annotations", map[string]string{"example.com/hash-shop": "shop-hash", "example.com/hash-cart": "cart-hash"},
			found.Spec.Template.Annotations)
		owned := map[string]string{}
		for _, entry := range found.ManagedFields {
			owned[entry.Manager] = entry.FieldsV1.GetRawString()
		}
		for _, name := range []string{"shop", "cart"} {
			expect.Equal(t, "fields of the manager", fmt.Sprintf(
				`{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:example.com/hash-%s":{}}}}}}`, name), owned["demo-hash-"+name])
		}
	})
}

func TestDeletedAndStoppedWorkloadsQueueOwners(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create("web", fromEnv, nil)
		w.Take()

		w.Act(func() error {
			found, err := w.kube.AppsV1().Deployments("ns").Get(t.Context(), "web", metav1.GetOptions{})
			expect.NoError(t, err)
			found.Spec.Template.Spec = corev1.PodSpec{}
			_, err = w.kube.AppsV1().Deployments("ns").Update(t.Context(), found, metav1.UpdateOptions{})
			return err
		})
		stopped := w.Take()
		w.Act(func() error {
			return w.kube.AppsV1().StatefulSets("ns").Delete(t.Context(), "web", metav1.DeleteOptions{})
		})
		gone := w.Take()

		expect.Equal(t, "queued when a workload stops to use it", []string{"event queued ns/shop"}, stopped)
		expect.Equal(t, "queued when a workload is gone", []string{"event queued ns/shop"}, gone)
	})
}

// TestLabel: a workload that uses a ConfigMap consents to be rolled, unless its label says otherwise. Content of an
// earlier version rolls only those whose label asks for it.
func TestLabel(t *testing.T) {
	all := []string{"DaemonSet/web", "Deployment/web", "StatefulSet/web"}
	tests := map[string]struct {
		labels  map[string]string
		byLabel bool
		want    []string
	}{
		"no label":                        {nil, false, all},
		"true":                            {map[string]string{options.Label: "true"}, false, all},
		"false":                           {map[string]string{options.Label: "false"}, false, nil},
		"no label, content of an earlier": {nil, true, nil},
		"true, content of an earlier":     {map[string]string{options.Label: "true"}, true, all},
		"another label":                   {map[string]string{"app": "false"}, false, all},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kube := controllertest.NewKube()
				w := &world{World: controllertest.NewWorld(t, kube), t: t, kube: kube}
				w.createLabeled("web", fromEnv, nil, test.labels) // A list of the fake heeds selectors, and a watch does not.
				w.start()

				expect.Equal(t, "rolled", test.want, w.roll(reload.Content{Changed: after(time.Minute), ByLabel: test.byLabel}))
			})
		})
	}
}

// TestStatusOfRolledWorkloads: a workload is InProgress from its roll until its pods have the content.
func TestStatusOfRolledWorkloads(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create("web", fromEnv, nil)
		var before []string
		statusOf := func() (status kstatus.Status, now bool) {
			rolled, err := w.workloads.Roll(t.Context(), reload.Content{
				Namespace: "ns", Name: "shop", Hash: "new", Changed: after(time.Minute), Rolled: before,
			}, time.Now())
			expect.NoError(t, err)
			before = nil
			for _, workload := range rolled {
				before = append(before, workload.ID)
			}
			for _, workload := range rolled {
				if workload.ID == "Deployment/web" {
					return workload.Status, workload.Now
				}
			}
			return "", false
		}
		report := func(status appsv1.DeploymentStatus) []string {
			w.Settle()
			w.Take()
			w.Act(func() error {
				found, err := w.kube.AppsV1().Deployments("ns").Get(t.Context(), "web", metav1.GetOptions{})
				expect.NoError(t, err)
				found.Status = status
				_, err = w.kube.AppsV1().Deployments("ns").UpdateStatus(t.Context(), found, metav1.UpdateOptions{})
				return err
			})
			return w.Take()
		}

		status, now := statusOf()
		expect.Equal(t, "status of the roll", kstatus.InProgressStatus, status)
		expect.Equal(t, "rolled now", true, now)
		status, now = statusOf()
		expect.Equal(t, "status before the cache has seen it", kstatus.InProgressStatus, status)
		expect.Equal(t, "rolled again", false, now)
		queued := report(appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}, {Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		}})
		expect.Equal(t, "queued when the pods are ready", []string{"event queued ns/shop"}, queued)
		status, _ = statusOf()
		expect.Equal(t, "status of ready pods", kstatus.CurrentStatus, status)
		report(appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"},
		}})
		status, _ = statusOf()
		expect.Equal(t, "status after the deadline", kstatus.FailedStatus, status)
	})
}
