// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/cache"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/synctestmain"
)

var (
	// The owner of the children is a Secret, because its kind does not matter.
	ownerKind   = corev1.SchemeGroupVersion.WithKind("Secret")
	serviceKind = corev1.SchemeGroupVersion.WithKind("Service")
	others      = metav1.UpdateOptions{FieldManager: "others"}
)

func TestMain(m *testing.M) { synctestmain.Run(m) }

// family is an owner with its children. Its queue calls Ensure once for each key, with the status
// of the previous call.
type family struct {
	*controllertest.World

	t *testing.T
	// serveAtStart makes the kind Service served before the first pass.
	serveAtStart bool
	kube         *controllertest.Kube
	owner        *corev1.Secret
	status       childv1alpha1.ChildrenStatus
	conditions   []metav1.Condition
	// desired are the arguments of the next Ensure.
	desired []Desired
	// passes are the reasons of the passes since the last forget.
	passes []controller.Reason
	state  State
	err    error

	set *Set
	// limits bound the rollout of templates.
	limits rollout.Limits
	fleet  *rollout.Fleet
	queue  *controller.Controller
	synced []controller.NamedSync
	// registry has the metrics of the queue.
	registry *prometheus.Registry
	// confirmErr is the result of Confirm and ConfirmOnce.
	confirmErr error
	// mu is held during a pass. The order of a pass and the steps of a test follows from time
	// alone, which the race detector does not see.
	mu sync.Mutex
}

// Wait advances the time, and waits until all goroutines are idle.
func (f *family) Wait(d time.Duration) {
	func() {
		f.mu.Lock()
		defer f.mu.Unlock()
	}()
	f.World.Wait(d)
}

// Queue implements Loop.
func (f *family) Queue() *controller.Controller { return f.queue }

// Await implements Loop.
func (f *family) Await(synced ...controller.NamedSync) { f.synced = append(f.synced, synced...) }

// Confirm implements Loop.
func (f *family) Confirm(context.Context, metav1.Object) error { return f.confirmErr }

// ConfirmOnce implements Loop.
func (f *family) ConfirmOnce(context.Context, metav1.Object) error { return f.confirmErr }

// ConditionsOf implements Loop.
func (f *family) ConditionsOf(metav1.Object) *[]metav1.Condition { return &f.conditions }

// JoinRollout implements Loop.
func (f *family) JoinRollout(func(int64, []metav1.Condition) rollout.Standing, ...kind.Gate) (*rollout.Fleet, error) {
	none := func(cache.ObjectName) (rollout.Member, bool) { return rollout.Member{}, false }
	f.fleet = rollout.NewFleet(f.queue, "Secrets", f.limits, none, func() []rollout.Member { return nil })
	return f.fleet, nil
}

// newFamily returns a family with existing children.
func newFamily(t *testing.T, desired ...Desired) *family {
	t.Helper()
	f := emptyFamily(t, desired...)
	f.start()
	if f.err != nil {
		t.Fatal(f.err)
	}
	f.forget()
	return f
}

func emptyFamily(t *testing.T, desired ...Desired) *family {
	t.Helper()
	kube := controllertest.NewKube()
	return &family{
		World: controllertest.NewWorld(t, kube), t: t, kube: kube, desired: desired,
		owner: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "owner"}},
	}
}

// start starts the reconciliation, as a new process does.
func (f *family) start() {
	f.t.Helper()
	maps, err1 := Of(f, f.kube, corev1.SchemeGroupVersion.WithKind("ConfigMap"), f.kube.CoreV1().ConfigMaps)
	secrets, err2 := Of(f, f.kube, corev1.SchemeGroupVersion.WithKind("Secret"), f.kube.CoreV1().Secrets)
	deployments, err3 := Of(f, f.kube, appsv1.SchemeGroupVersion.WithKind("Deployment"), f.kube.AppsV1().Deployments)
	jobs, err4 := Of(f, f.kube, batchv1.SchemeGroupVersion.WithKind("Job"), f.kube.BatchV1().Jobs)
	sets, err5 := Of(f, f.kube, appsv1.SchemeGroupVersion.WithKind("StatefulSet"), f.kube.AppsV1().StatefulSets)
	set := NewSet(ownerKind, maps, secrets, deployments, jobs, sets).Optional(serviceKind)
	f.set, f.registry = set, prometheus.NewPedanticRegistry()
	f.queue = controller.New(controller.ReconcilerFunc(func(ctx context.Context, key cache.ObjectName, why controller.Reason) (controller.Result, error) {
		if key.Name != f.owner.Name {
			return controller.Result{}, nil
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.passes = append(f.passes, why)
		ctx = controller.LogGeneration(ctx, f.owner.Generation)
		f.state, f.err = set.Ensure(ctx, f.owner, &f.status, time.Now(), f.desired...)
		return controller.Result{RequeueAfter: f.state.RetryAfter}, f.err
	}), controller.Options{Name: "family", Metrics: controller.NewMetrics(f.registry)})
	f.synced = nil
	expect.NoError(f.t, errors.Join(err1, err2, err3, err4, err5, set.Watch(f)))
	f.queue.Enqueue(cache.NewObjectName("ns", "web"), controller.SpecChange)
	if f.serveAtStart {
		f.serve()
	}
	f.Run(func(stop, lead context.Context) error { return f.queue.Run(stop, lead, f.synced...) })
}

// forget drops the recorded requests and passes.
func (f *family) forget() {
	f.Take()
	f.passes = nil
}

// drifts returns the number of drifted and of restored children, from /metrics.
func (f *family) drifts() (detected, corrected float64) {
	f.t.Helper()
	families, err := f.registry.Gather()
	expect.NoError(f.t, err)
	values := map[string]float64{}
	for _, metric := range families {
		values[metric.GetName()] = metric.GetMetric()[0].GetCounter().GetValue()
	}
	return values["controller_drift_detected_total"], values["controller_drift_corrected_total"]
}

// drifted compares the number of drifted and of restored children.
func (f *family) drifted(detected, corrected float64) {
	f.t.Helper()
	gotDetected, gotCorrected := f.drifts()
	expect.Equal(f.t, "drift detected", detected, gotDetected)
	expect.Equal(f.t, "drift corrected", corrected, gotCorrected)
}

// pass queues the owner.
func (f *family) pass() {
	f.queue.Enqueue(cache.NewObjectName("ns", "web"), controller.SpecChange)
	f.Settle()
}

func (f *family) configMap() *corev1.ConfigMap {
	f.t.Helper()
	var found *corev1.ConfigMap
	f.Act(func() (err error) {
		found, err = f.kube.CoreV1().ConfigMaps("ns").Get(context.Background(), "web", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			found, err = nil, nil
		}
		return err
	})
	return found
}

// change changes the ConfigMap as another client.
func (f *family) change(change func(*corev1.ConfigMap)) {
	f.t.Helper()
	found := f.configMap()
	change(found)
	f.Act(func() error {
		_, err := f.kube.CoreV1().ConfigMaps("ns").Update(context.Background(), found, others)
		return err
	})
}

// applyAsOperator applies the ConfigMap as another client under the operator's field manager, some
// time after the operator.
func (f *family) applyAsOperator(after time.Duration) {
	f.t.Helper()
	f.Wait(after)
	content := corev1ac.ConfigMap("web", "ns").WithData(map[string]string{"key": "theirs"}).
		WithLabels(map[string]string{"app": "web", ManagedByLabel: FieldManager}).
		WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("Secret").WithName("web").WithUID("owner").WithController(true))
	f.Act(func() error {
		_, err := f.kube.CoreV1().ConfigMaps("ns").Apply(context.Background(), content, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
		return err
	})
}

// remove deletes the ConfigMap as another client, if it exists.
func (f *family) remove() {
	f.t.Helper()
	f.Act(func() error {
		err := f.kube.CoreV1().ConfigMaps("ns").Delete(context.Background(), "web", metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (f *family) create(object *corev1.ConfigMap) {
	f.t.Helper()
	f.Act(func() error {
		_, err := f.kube.CoreV1().ConfigMaps("ns").Create(context.Background(), object, metav1.CreateOptions{FieldManager: "others"})
		return err
	})
}

func configMap(value string) Desired {
	return corev1ac.ConfigMap("web", "").WithLabels(map[string]string{"app": "web"}).WithData(map[string]string{"key": value})
}

func deployment(image string) Desired {
	labels := map[string]string{"app": "web"}
	return appsv1ac.Deployment("web", "").WithSpec(appsv1ac.DeploymentSpec().WithReplicas(1).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).
			WithSpec(corev1ac.PodSpec().WithContainers(corev1ac.Container().WithName("web").WithImage(image)))))
}

func secret(value string) Desired {
	return corev1ac.Secret("web", "").WithStringData(map[string]string{"password": value})
}

// inBubble runs a test with fake time.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// applied are the resources in the status.
func applied(f *family) (resources []string) {
	for _, record := range f.status.Applied {
		resources = append(resources, strings.ToLower(record.Kind)+"s")
	}
	return resources
}
