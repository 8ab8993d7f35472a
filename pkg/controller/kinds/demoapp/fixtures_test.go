// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"errors"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kinds/demoapp/audit"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	demofake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/registries"
	"github.com/example/demoapp-controller/test/expect"
)

const (
	namespace      = "ns"
	auditNamespace = "demoapp-audit"
	plainKey       = "very \"secret\" <key>"
	resync         = 10 * time.Minute
)

var (
	began    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	demoApps = v1alpha1.SchemeGroupVersion.WithResource("demoapps")
	errPlain = errors.New("connection refused")
)

// world is the environment of a controller under test: fake API servers and a fake
// engine. They record all requests in one journal.
type world struct {
	t        *testing.T
	demo     *demofake.Clientset
	kube     *controllertest.Kube
	metadata *metadatafake.FakeMetadataClient
	dynamic  *dynamicfake.FakeDynamicClient
	engine   *releasetest.Engine
	recorder *controllertest.Recorder
	clock    *clocktesting.FakeClock
	calls    *controllertest.Journal

	// Errors for requests, while they are set.
	auditErr, namespaceErr, patchErr, statusErr, secretErr error

	// rolloutLimits limit the rollout of a newer chart; zero for no limit.
	rolloutLimits rollout.Limits
	// registries are the allowed registries; all by default.
	registries registries.List

	apps cache.SharedIndexInformer
	// audited is the informer of audit records.
	audited             cache.SharedIndexInformer
	secrets, configMaps *watched
	sources             *values.Sources
	// classes are the IngressClasses. definition is the CustomResourceDefinition of
	// HTTPRoute.
	classes, definition *watched
	controller          *Controller
}

func newWorld(t *testing.T) *world {
	t.Helper()
	calls := &controllertest.Journal{}
	w := &world{
		t: t, demo: demofake.NewClientset(), kube: controllertest.NewKube(),
		engine:   releasetest.New(began, calls.Add),
		recorder: &controllertest.Recorder{}, clock: clocktesting.NewFakeClock(began), calls: calls,
	}
	controllertest.Stamp(w.demo)
	controllertest.Stamp(w.kube)
	w.kube.PrependReactor("create", "configmaps", w.needNamespace)
	w.kube.PrependReactor("create", "configmaps", failing(&w.auditErr))
	w.kube.PrependReactor("create", "namespaces", failing(&w.namespaceErr))
	w.kube.PrependReactor("get", "secrets", failing(&w.secretErr))
	w.demo.PrependReactor("patch", "demoapps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := w.patchErr
		if action.GetSubresource() == "status" {
			err = w.statusErr
		}
		return err != nil, nil, err
	})
	w.kube.PrependReactor("*", "*", calls.React)
	w.demo.PrependReactor("*", "*", calls.React)
	w.start(testChart(t, "1.0.0"))
	return w
}

// start creates a new controller, as a new process would.
func (w *world) start(chart *chart.Chart) {
	w.t.Helper()
	w.apps = externalversions.NewSharedInformerFactory(w.demo, 0).Demo().V1alpha1().DemoApps().Informer()
	w.secrets, w.configMaps, w.classes, w.definition = newWatched(), newWatched(), newWatched(), newWatched()
	w.audited = cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	w.build(chart, w.clock)
}

func newWatched() *watched {
	return &watched{informer: cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
}

// watched is a Watch that the test fills. It counts calls of Need.
type watched struct {
	informer cache.SharedIndexInformer
	// mu guards needed, which several workers count.
	mu     sync.Mutex
	needed int
	err    error
}

// Informer implements Watch.
func (w *watched) Informer() cache.SharedIndexInformer { return w.informer }

// Need implements Watch.
func (w *watched) Need(cache.ObjectName, controller.Enqueuer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.needed++
	return w.err
}

// build creates a controller on the world's informers.
func (w *world) build(chart *chart.Chart, clock clock.WithTicker) {
	w.t.Helper()
	trail, err := audit.New(audit.Config{
		Namespace: auditNamespace, Manager: fieldManager, Keys: AuditKeys(),
		ConfigMaps: w.kube.CoreV1(), Namespaces: w.kube.CoreV1(), Informer: w.audited, Clock: clock,
	})
	expect.NoError(w.t, err)
	w.sources, err = values.NewSources(values.Config{
		Secrets: w.kube.CoreV1(), ConfigMaps: w.kube.CoreV1(),
		SecretWatches: map[string]values.Watch{"": w.secrets}, ConfigMapWatches: map[string]values.Watch{"": w.configMaps},
	})
	expect.NoError(w.t, err)
	w.controller, err = New(Deps{
		Apps: w.demo.DemoV1alpha1(), AppInformers: map[string]cache.SharedIndexInformer{"": w.apps},
		Sources: w.sources, IngressClasses: w.classes, HTTPRouteDefinition: w.definition, Audit: trail,
		Engine: w.engine, Chart: chart, Recorder: w.recorder, Clock: clock, Metrics: controller.NewMetrics(prometheus.NewRegistry()),
		ResyncPeriod: resync, RolloutLimits: w.rolloutLimits, Registries: w.registries,
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// needNamespace refuses objects in namespaces that do not exist, as an API server does.
func (w *world) needNamespace(action clienttesting.Action) (bool, runtime.Object, error) {
	gvr := corev1.SchemeGroupVersion.WithResource("namespaces")
	_, err := w.kube.Tracker().Get(gvr, "", action.GetNamespace())
	return apierrors.IsNotFound(err), nil, err
}

func failing(err *error) clienttesting.ReactionFunc {
	return func(clienttesting.Action) (bool, runtime.Object, error) { return *err != nil, nil, *err }
}

// create stores an app as the API server would.
func (w *world) create(app *v1alpha1.DemoApp) *v1alpha1.DemoApp {
	w.t.Helper()
	created, err := w.demo.DemoV1alpha1().DemoApps(app.Namespace).Create(w.t.Context(), app, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	return created
}

// change updates an app's spec or metadata.
func (w *world) change(name string, change func(*v1alpha1.DemoApp)) {
	w.t.Helper()
	app := w.app(name)
	change(app)
	_, err := w.demo.DemoV1alpha1().DemoApps(namespace).Update(w.t.Context(), app, metav1.UpdateOptions{})
	expect.NoError(w.t, err)
}

// report updates an app's status as its own controller would.
func (w *world) report(name string, change func(*v1alpha1.DemoApp)) {
	w.t.Helper()
	app := w.app(name)
	change(app)
	_, err := w.demo.DemoV1alpha1().DemoApps(namespace).UpdateStatus(w.t.Context(), app, metav1.UpdateOptions{})
	expect.NoError(w.t, err)
}

func (w *world) delete(name string) {
	w.t.Helper()
	expect.NoError(w.t, w.demo.DemoV1alpha1().DemoApps(namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// app returns a copy of the stored app; nil for an absent app.
func (w *world) app(name string) *v1alpha1.DemoApp {
	w.t.Helper()
	found, err := w.demo.Tracker().Get(demoApps, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	expect.NoError(w.t, err)
	app, ok := found.(*v1alpha1.DemoApp)
	if !ok {
		w.t.Fatalf("stored is a %T", found)
	}
	return app.DeepCopy()
}

// secret creates or replaces the Secret "keys".
func (w *world) secret(data map[string]string) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keys"}, Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	secrets := w.kube.CoreV1().Secrets(namespace)
	_, err := secrets.Create(w.t.Context(), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(w.t.Context(), secret, metav1.UpdateOptions{})
	}
	expect.NoError(w.t, err)
}

// records returns the audit records, by name.
func (w *world) records() map[string]corev1.ConfigMap {
	w.t.Helper()
	list, err := w.kube.Tracker().List(corev1.SchemeGroupVersion.WithResource("configmaps"),
		corev1.SchemeGroupVersion.WithKind("ConfigMap"), auditNamespace)
	expect.NoError(w.t, err)
	maps, ok := list.(*corev1.ConfigMapList)
	if !ok {
		w.t.Fatalf("listed a %T", list)
	}
	found := map[string]corev1.ConfigMap{}
	for _, record := range maps.Items {
		found[record.Name] = record
	}
	return found
}

// sync updates the caches.
func (w *world) sync() {
	w.t.Helper()
	apps, err := w.demo.Tracker().List(demoApps, v1alpha1.SchemeGroupVersion.WithKind("DemoApp"), "")
	expect.NoError(w.t, err)
	items, err := meta.ExtractList(apps)
	expect.NoError(w.t, err)
	fill(w.t, w.apps, items)
	secrets, err := w.kube.Tracker().List(corev1.SchemeGroupVersion.WithResource("secrets"),
		corev1.SchemeGroupVersion.WithKind("Secret"), "")
	expect.NoError(w.t, err)
	items, err = meta.ExtractList(secrets)
	expect.NoError(w.t, err)
	fill(w.t, w.secrets.informer, metadataOf(w.t, items))
	configMaps, err := w.kube.Tracker().List(corev1.SchemeGroupVersion.WithResource("configmaps"),
		corev1.SchemeGroupVersion.WithKind("ConfigMap"), "")
	expect.NoError(w.t, err)
	items, err = meta.ExtractList(configMaps)
	expect.NoError(w.t, err)
	fill(w.t, w.configMaps.informer, metadataOf(w.t, items))
}

func metadataOf(t *testing.T, items []runtime.Object) []runtime.Object {
	t.Helper()
	found := make([]runtime.Object, 0, len(items))
	for _, item := range items {
		accessor, err := meta.Accessor(item)
		expect.NoError(t, err)
		found = append(found, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: accessor.GetNamespace(), Name: accessor.GetName(),
			UID: accessor.GetUID(), ResourceVersion: accessor.GetResourceVersion(),
		}})
	}
	return found
}

// fill replaces the content of an informer. Unchanged objects keep their identity.
func fill(t *testing.T, informer cache.SharedIndexInformer, items []runtime.Object) {
	t.Helper()
	list := make([]any, 0, len(items))
	for _, item := range items {
		fresh := item.DeepCopyObject()
		if known, ok, err := informer.GetIndexer().Get(fresh); err == nil && ok && cmp.Equal(known, any(fresh)) {
			list = append(list, known)
			continue
		}
		controllertest.GuardMutations(t, fresh)
		list = append(list, fresh)
	}
	expect.NoError(t, informer.GetIndexer().Replace(list, ""))
}

// pass updates the caches and makes one pass over the app.
func (w *world) pass(name string, why controller.Reason) (controller.Result, error) {
	w.t.Helper()
	w.sync()
	return w.latePass(name, why)
}

// latePass makes a pass without updating the caches.
func (w *world) latePass(name string, why controller.Reason) (controller.Result, error) {
	w.t.Helper()
	w.calls.Take()
	result, err := w.controller.Reconcile(w.t.Context(), keyOf(name), why)
	w.checkSecrecy(err)
	if app := w.app(name); app != nil && !errors.Is(err, helm.ErrNotSynced) && !errors.Is(err, controller.ErrNotSynced) {
		releasetest.CheckConditions(w.t, app, app.Status.ReleaseStatus,
			v1alpha1.ReasonAuditFailed, releasev1alpha1.ReasonUninstallFailed, apimeta.ReasonFinalizerFailed)
	}
	return result, err
}

// passes makes a pass that must not fail.
func (w *world) passes(name string, why controller.Reason) controller.Result {
	w.t.Helper()
	result, err := w.pass(name, why)
	expect.NoError(w.t, err)
	return result
}

// deployed returns a world with the deployed app "a", and nothing left to do.
func deployed(t *testing.T, change ...func(*v1alpha1.DemoApp)) *world {
	t.Helper()
	w := newWorld(t)
	w.create(newApp("a", change...))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions at the start", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
	w.recorder.Take()
	w.clock.Step(time.Minute)
	return w
}

// conditions returns an app's conditions without their messages.
func (w *world) conditions(name string) map[string]string {
	w.t.Helper()
	return releasetest.ConditionsOf(w.app(name).Status.Conditions)
}

// message returns the message of one of an app's conditions.
func (w *world) message(name, conditionType string) string {
	w.t.Helper()
	return releasetest.Message(w.app(name).Status.Conditions, conditionType)
}

func newApp(name string, change ...func(*v1alpha1.DemoApp)) *v1alpha1.DemoApp {
	app := &v1alpha1.DemoApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.DemoAppSpec{Message: "hello", APIKey: plainKey},
		Status:     v1alpha1.DemoAppStatus{ReleaseStatus: releasev1alpha1.ReleaseStatus{ObservedGeneration: -1}},
	}
	for _, c := range change {
		c(app)
	}
	return app
}

func waitsFor(name string) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) { app.Spec.WaitFor = name }
}

func says(message string) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) { app.Spec.Message = message }
}

func keyFrom(secret, key string) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) {
		app.Spec.APIKey = ""
		app.Spec.APIKeyFrom = &releasev1alpha1.SecretKeyReference{Name: secret, Key: key}
	}
}

// condition sets a condition of an app's status.
func condition(conditionType string, is metav1.ConditionStatus, reason string) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) {
		meta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{
			Type: conditionType, Status: is, Reason: reason, Message: reason + " message",
			ObservedGeneration: app.Generation, LastTransitionTime: metav1.NewTime(began),
		})
	}
}

func keyOf(name string) cache.ObjectName { return cache.NewObjectName(namespace, name) }

// testChart returns a chart without templates. Its names of values are extraEnv, name and
// value.
func testChart(t *testing.T, version string) *chart.Chart {
	t.Helper()
	chart, err := chart.LoadFS(fstest.MapFS{
		"Chart.yaml":  {Data: []byte("apiVersion: v2\nname: demo-app\nversion: " + version + "\nappVersion: \"1.27\"\n")},
		"values.yaml": {Data: []byte("extraEnv: [{name: A, value: b}]\n")},
	}, ".")
	expect.NoError(t, err)
	return chart
}
