// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/registries"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	demofake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/helm"
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

// world is what the controller lives in: fake API servers and a fake engine
// that write down, in one list, what they are asked to do.
type world struct {
	t        *testing.T
	demo     *demofake.Clientset
	kube     *kubefake.Clientset
	metadata *metadatafake.FakeMetadataClient
	dynamic  *dynamicfake.FakeDynamicClient
	engine   *engine
	recorder *recorder
	clock    *clocktesting.FakeClock
	calls    *journal

	// The errors with which requests fail, while they are set.
	auditErr, namespaceErr, patchErr, statusErr, secretErr error

	// licenses is the license server; nil for none.
	licenses Licenses
	// rolloutLimits bound the rollout of a newer chart; zero for none.
	rolloutLimits rollout.Limits
	// registries are those that images may come from; all by default.
	registries registries.List

	apps, secrets cache.SharedIndexInformer
	configMaps    *watched
	// classes are the IngressClasses, and definition the CustomResourceDefinition
	// of HTTPRoutes.
	classes, definition *watched
	controller          *Controller
}

func newWorld(t *testing.T) *world {
	t.Helper()
	calls := &journal{}
	w := &world{
		t: t, demo: demofake.NewClientset(), kube: kubefake.NewClientset(),
		engine:   &engine{calls: calls, releases: map[cache.ObjectName]*fakeRelease{}},
		recorder: &recorder{}, clock: clocktesting.NewFakeClock(began), calls: calls,
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
	w.kube.PrependReactor("*", "*", calls.react)
	w.demo.PrependReactor("*", "*", calls.react)
	w.start(testChart(t, "1.0.0"))
	return w
}

// start makes a new controller, as a new process would.
func (w *world) start(chart *helm.Chart) {
	w.t.Helper()
	w.apps = externalversions.NewSharedInformerFactory(w.demo, 0).Demo().V1alpha1().DemoApps().Informer()
	w.secrets = cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	w.configMaps, w.classes, w.definition = newWatched(), newWatched(), newWatched()
	w.build(chart, w.clock)
}

func newWatched() *watched {
	return &watched{informer: cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
}

// watched is a Watch that is filled by hand and counts who needs it.
type watched struct {
	informer cache.SharedIndexInformer
	needed   int
	err      error
}

// Informer implements Watch.
func (w *watched) Informer() cache.SharedIndexInformer { return w.informer }

// Need implements Watch.
func (w *watched) Need(cache.ObjectName, controller.Enqueuer) error {
	w.needed++
	return w.err
}

// build makes a controller on the world's informers.
func (w *world) build(chart *helm.Chart, clock clock.WithTicker) {
	w.t.Helper()
	var err error
	w.controller, err = New(Deps{
		Apps: w.demo.DemoV1alpha1(), AppInformers: map[string]cache.SharedIndexInformer{"": w.apps},
		Secrets: w.kube.CoreV1(), SecretInformers: map[string]cache.SharedIndexInformer{"": w.secrets},
		ConfigMapWatches: map[string]Watch{"": w.configMaps},
		IngressClasses:   w.classes, HTTPRouteDefinition: w.definition,
		ConfigMaps: w.kube.CoreV1(), Namespaces: w.kube.CoreV1(),
		Engine: w.engine, Chart: chart, Recorder: w.recorder, Clock: clock,
		AuditNamespace: auditNamespace, ResyncPeriod: resync, Licenses: w.licenses, LicenseRetry: 2 * time.Minute,
		RolloutLimits: w.rolloutLimits,
		Registries:    w.registries,
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// needNamespace refuses objects in namespaces that do not exist, as an API
// server does.
func (w *world) needNamespace(action clienttesting.Action) (bool, runtime.Object, error) {
	gvr := corev1.SchemeGroupVersion.WithResource("namespaces")
	_, err := w.kube.Tracker().Get(gvr, "", action.GetNamespace())
	return apierrors.IsNotFound(err), nil, err
}

func failing(err *error) clienttesting.ReactionFunc {
	return func(clienttesting.Action) (bool, runtime.Object, error) { return *err != nil, nil, *err }
}

// create makes an app as the API server would store it.
func (w *world) create(app *v1alpha1.DemoApp) *v1alpha1.DemoApp {
	w.t.Helper()
	created, err := w.demo.DemoV1alpha1().DemoApps(app.Namespace).Create(w.t.Context(), app, metav1.CreateOptions{})
	must(w.t, err)
	return created
}

// change changes an app's spec or metadata.
func (w *world) change(name string, change func(*v1alpha1.DemoApp)) {
	w.t.Helper()
	app := w.app(name)
	change(app)
	_, err := w.demo.DemoV1alpha1().DemoApps(namespace).Update(w.t.Context(), app, metav1.UpdateOptions{})
	must(w.t, err)
}

// report changes an app's status as its own controller would.
func (w *world) report(name string, change func(*v1alpha1.DemoApp)) {
	w.t.Helper()
	app := w.app(name)
	change(app)
	_, err := w.demo.DemoV1alpha1().DemoApps(namespace).UpdateStatus(w.t.Context(), app, metav1.UpdateOptions{})
	must(w.t, err)
}

func (w *world) delete(name string) {
	w.t.Helper()
	must(w.t, w.demo.DemoV1alpha1().DemoApps(namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// app is a copy of the stored app; nil when there is none.
func (w *world) app(name string) *v1alpha1.DemoApp {
	w.t.Helper()
	found, err := w.demo.Tracker().Get(demoApps, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(w.t, err)
	app, ok := found.(*v1alpha1.DemoApp)
	if !ok {
		w.t.Fatalf("stored is a %T", found)
	}
	return app.DeepCopy()
}

// secret makes or replaces the Secret "keys".
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
	must(w.t, err)
}

// records are the audit records, by name.
func (w *world) records() map[string]corev1.ConfigMap {
	w.t.Helper()
	list, err := w.kube.Tracker().List(corev1.SchemeGroupVersion.WithResource("configmaps"),
		corev1.SchemeGroupVersion.WithKind("ConfigMap"), auditNamespace)
	must(w.t, err)
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

// sync brings the caches up to date.
func (w *world) sync() {
	w.t.Helper()
	apps, err := w.demo.Tracker().List(demoApps, v1alpha1.SchemeGroupVersion.WithKind("DemoApp"), "")
	must(w.t, err)
	items, err := meta.ExtractList(apps)
	must(w.t, err)
	fill(w.t, w.apps, items)
	secrets, err := w.kube.Tracker().List(corev1.SchemeGroupVersion.WithResource("secrets"),
		corev1.SchemeGroupVersion.WithKind("Secret"), "")
	must(w.t, err)
	items, err = meta.ExtractList(secrets)
	must(w.t, err)
	fill(w.t, w.secrets, metadataOf(w.t, items))
	configMaps, err := w.kube.Tracker().List(corev1.SchemeGroupVersion.WithResource("configmaps"),
		corev1.SchemeGroupVersion.WithKind("ConfigMap"), "")
	must(w.t, err)
	items, err = meta.ExtractList(configMaps)
	must(w.t, err)
	fill(w.t, w.configMaps.informer, metadataOf(w.t, items))
}

func metadataOf(t *testing.T, items []runtime.Object) []runtime.Object {
	t.Helper()
	found := make([]runtime.Object, 0, len(items))
	for _, item := range items {
		accessor, err := meta.Accessor(item)
		must(t, err)
		found = append(found, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: accessor.GetNamespace(), Name: accessor.GetName(),
			UID: accessor.GetUID(), ResourceVersion: accessor.GetResourceVersion(),
		}})
	}
	return found
}

// fill replaces what an informer holds. What is there already stays, as the
// very same object.
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
	must(t, informer.GetIndexer().Replace(list, ""))
}

// pass brings the caches up to date and makes one pass over the app.
func (w *world) pass(name string, why controller.Reason) (controller.Result, error) {
	w.t.Helper()
	w.sync()
	return w.latePass(name, why)
}

// latePass makes a pass over the caches as they are.
func (w *world) latePass(name string, why controller.Reason) (controller.Result, error) {
	w.t.Helper()
	w.calls.take()
	result, err := w.controller.Reconcile(w.t.Context(), keyOf(name), why)
	w.checkSecrecy(err)
	if app := w.app(name); app != nil && !errors.Is(err, helm.ErrNotSynced) && !errors.Is(err, controller.ErrNotSynced) {
		checkConditions(w.t, app)
	}
	return result, err
}

// passes makes a pass that must not fail.
func (w *world) passes(name string, why controller.Reason) controller.Result {
	w.t.Helper()
	result, err := w.pass(name, why)
	must(w.t, err)
	return result
}

// deployed is a world with the app "a", deployed, and nothing left to do.
func deployed(t *testing.T, change ...func(*v1alpha1.DemoApp)) *world {
	t.Helper()
	w := newWorld(t)
	w.create(newApp("a", change...))
	w.passes("a", controller.SpecChange)
	equal(t, "conditions at the start", conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
	w.recorder.take()
	w.clock.Step(time.Minute)
	return w
}

// conditions are an app's conditions without their messages.
func (w *world) conditions(name string) map[string]string {
	w.t.Helper()
	found := map[string]string{}
	for _, c := range w.app(name).Status.Conditions {
		found[c.Type] = string(c.Status) + " " + c.Reason
	}
	return found
}

// conditions pairs types with their status and reason; Initialized is always
// one of them.
func conditions(pairs ...string) map[string]string {
	wanted := map[string]string{v1alpha1.ConditionInitialized: "True " + v1alpha1.ReasonChartLoaded}
	for i := 0; i < len(pairs); i += 2 {
		wanted[pairs[i]] = pairs[i+1]
	}
	return wanted
}

// message is the message of one of an app's conditions.
func (w *world) message(name, conditionType string) string {
	w.t.Helper()
	condition := meta.FindStatusCondition(w.app(name).Status.Conditions, conditionType)
	if condition == nil {
		return ""
	}
	return condition.Message
}

// checkConditions holds an app's conditions to what is promised of all of them.
// Deployed, Failed and Drifted may still speak of an earlier generation, until
// something is known of this one, and so may all of them once the app is
// deleted.
func checkConditions(t *testing.T, app *v1alpha1.DemoApp) {
	t.Helper()
	older := []string{v1alpha1.ConditionDeployed, v1alpha1.ConditionFailed, v1alpha1.ConditionDrifted}
	ends := []string{v1alpha1.ReasonAuditFailed, v1alpha1.ReasonUninstallFailed, v1alpha1.ReasonFinalizerFailed}
	for _, c := range app.Status.Conditions {
		mayBeOlder := slices.Contains(older, c.Type) || app.DeletionTimestamp != nil && !slices.Contains(ends, c.Reason)
		if c.ObservedGeneration < 1 || c.ObservedGeneration > app.Generation || !mayBeOlder && c.ObservedGeneration != app.Generation {
			t.Errorf("condition %s is of generation %d, not %d", c.Type, c.ObservedGeneration, app.Generation)
		}
		if c.Reason == "" || c.Message == "" || c.LastTransitionTime.IsZero() {
			t.Errorf("condition %s lacks something: %+v", c.Type, c)
		}
	}
	is := func(conditionType string) bool {
		return meta.IsStatusConditionTrue(app.Status.Conditions, conditionType)
	}
	ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		t.Error("there is no condition Ready")
	}
	if is(v1alpha1.ConditionStalled) && is(v1alpha1.ConditionReconciling) {
		t.Error("Stalled and Reconciling at once")
	}
	if is(v1alpha1.ConditionReady) == (is(v1alpha1.ConditionStalled) || is(v1alpha1.ConditionReconciling)) {
		t.Errorf("Ready is %+v beside Stalled=%t, Reconciling=%t", ready, is(v1alpha1.ConditionStalled), is(v1alpha1.ConditionReconciling))
	}
	for _, onlyTrue := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling, v1alpha1.ConditionFailed, v1alpha1.ConditionDrifted, v1alpha1.ConditionSuspended, v1alpha1.ConditionUpgradeHeld} {
		if meta.FindStatusCondition(app.Status.Conditions, onlyTrue) != nil && !is(onlyTrue) {
			t.Errorf("condition %s is there and not True", onlyTrue)
		}
	}
	if app.Status.ObservedGeneration > app.Generation {
		t.Errorf("observedGeneration %d is beyond generation %d", app.Status.ObservedGeneration, app.Generation)
	}
}

// checkSecrecy looks for the key wherever it must not be.
func (w *world) checkSecrecy(err error) {
	w.t.Helper()
	said := []string{fmt.Sprint(err), strings.Join(w.recorder.all(), "\n")}
	for _, name := range []string{"a", "b"} {
		if app := w.app(name); app != nil {
			said = append(said, asJSON(w.t, app.Status))
		}
	}
	for _, record := range w.records() {
		said = append(said, asJSON(w.t, record))
		for _, value := range record.Data {
			said = append(said, value)
		}
	}
	for _, text := range said {
		if showsKey(text) {
			w.t.Errorf("shows the key: %s", text)
		}
	}
}

// showsKey reports whether a text holds the key, in any of the ways in which a
// message or a Secret writes one.
func showsKey(text string) bool {
	quoted := strings.Trim(fmt.Sprintf("%q", plainKey), `"`)
	asJSON, _ := json.Marshal(plainKey) //nolint:errchkjson // A string always has a form in JSON.
	forms := []string{plainKey, quoted, strings.Trim(string(asJSON), `"`), base64.StdEncoding.EncodeToString([]byte(plainKey))}
	return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, form) })
}

func newApp(name string, change ...func(*v1alpha1.DemoApp)) *v1alpha1.DemoApp {
	app := &v1alpha1.DemoApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.DemoAppSpec{Message: "hello", APIKey: plainKey},
		Status:     v1alpha1.DemoAppStatus{ObservedGeneration: -1},
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
		app.Spec.APIKeyFrom = &v1alpha1.SecretKeyReference{Name: secret, Key: key}
	}
}

// condition sets a condition of an app's status.
func condition(conditionType string, is metav1.ConditionStatus, reason string) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) {
		meta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{
			Type: conditionType, Status: is, Reason: reason, Message: reason + " it is",
			ObservedGeneration: app.Generation, LastTransitionTime: metav1.NewTime(began),
		})
	}
}

func keyOf(name string) cache.ObjectName { return cache.NewObjectName(namespace, name) }

// testChart is a chart without templates.
func testChart(t *testing.T, version string) *helm.Chart {
	t.Helper()
	chart, err := helm.LoadFS(fstest.MapFS{
		"Chart.yaml": {Data: []byte("apiVersion: v2\nname: demo-app\nversion: " + version + "\nappVersion: \"1.27\"\n")},
	}, ".")
	must(t, err)
	return chart
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	must(t, err)
	return string(data)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(blocker{}, event{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func contains(t *testing.T, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s is %q, without %q", what, text, part)
	}
}

// journal is the list of what the fakes were asked to do, in order.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) add(entry string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry)
}

// take returns what was added since the last call.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries := j.entries
	j.entries = nil
	return entries
}

// react notes a request and leaves the answer to others.
func (j *journal) react(action clienttesting.Action) (bool, runtime.Object, error) {
	j.note(action)
	return false, nil, nil
}

func (j *journal) note(action clienttesting.Action) {
	verb, what, name := action.GetVerb(), action.GetResource().Resource, ""
	switch a := action.(type) {
	case clienttesting.PatchAction:
		name = a.GetName()
		if a.GetPatchType() == types.ApplyPatchType {
			verb = "apply"
		}
	case clienttesting.GetAction:
		name = a.GetName()
	}
	if sub := action.GetSubresource(); sub != "" {
		what += "/" + sub
	}
	j.add(strings.TrimSuffix(verb+" "+what+" "+name, " "))
}

// recorder is an events.EventRecorder that remembers.
type recorder struct {
	mu   sync.Mutex
	old  []string
	news []string
}

// Eventf implements events.EventRecorder.
func (r *recorder) Eventf(regarding, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := "?"
	if object, err := meta.Accessor(regarding); err == nil {
		name = object.GetName()
	}
	r.news = append(r.news, strings.Join([]string{name, eventType, reason, action, fmt.Sprintf(note, args...)}, " "))
}

// take returns what was emitted since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	news := r.news
	r.old, r.news = append(r.old, news...), nil
	return news
}

// of are all events about an app.
func (r *recorder) of(name string) []string {
	var found []string
	for _, e := range r.all() {
		if event, ok := strings.CutPrefix(e, name+" "); ok {
			found = append(found, event)
		}
	}
	return found
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(slices.Clone(r.old), r.news...)
}

// engine is an Engine that keeps releases in memory. It decides as the real
// one does.
type engine struct {
	calls *journal

	mu       sync.Mutex
	releases map[cache.ObjectName]*fakeRelease
	// failures are what the next calls of Execute return.
	failures                 []error
	observeErr, uninstallErr error
	// fields are what Explain finds different in objects of a kind.
	fields map[string][]string
	// executing is called by Execute before it does anything.
	executing func()
	// wanted is what Execute was called with last.
	wanted      helm.Release
	looks       map[cache.ObjectName]int
	forgotten   []string
	subscribers []func(cache.ObjectName, helm.Change)
}

// fakeRelease is a release and its objects: as applied, and as they are now.
type fakeRelease struct {
	record  *helm.Record
	applied map[string]helm.InventoryEntry
	live    map[string]helm.InventoryEntry
	health  helm.Health
	writes  int
	// inputs are those of each revision.
	inputs map[int]string
	// past are the records before the newest one.
	past []helm.Record
}

// kinds are those of the objects of a release, in the order of its inventory.
var kinds = []string{"ConfigMap", "Deployment", "Secret", "Service"}

var healthy = helm.Health{Status: status.CurrentStatus, Replicas: 1, ReadyReplicas: 1, Selector: "app=a"}

// Observe implements Engine.
func (e *engine) Observe(_ context.Context, key cache.ObjectName, baseline helm.Baseline) (helm.Snapshot, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.looks == nil {
		e.looks = map[cache.ObjectName]int{}
	}
	e.looks[key]++
	if e.observeErr != nil {
		return helm.Snapshot{}, e.observeErr
	}
	r := e.releases[key]
	if r == nil || r.record == nil {
		return helm.Snapshot{}, nil
	}
	record := *r.record
	snapshot := helm.Snapshot{Record: &record, LastGood: r.lastGood(), BaselineKnown: baseline.Revision == record.Revision}
	if !snapshot.BaselineKnown {
		return snapshot, nil
	}
	for _, entry := range baseline.Inventory {
		live, ok := r.live[entry.Kind]
		switch {
		case !ok:
			snapshot.Drifts = append(snapshot.Drifts, helm.Drift{Object: entry.ObjectReference, Kind: helm.DriftMissing})
			continue
		case live.UID != entry.UID:
			snapshot.Drifts = append(snapshot.Drifts, helm.Drift{Object: entry.ObjectReference, Kind: helm.DriftReplaced})
		case live.Digest != entry.Digest:
			snapshot.Drifts = append(snapshot.Drifts, helm.Drift{Object: entry.ObjectReference, Kind: helm.DriftChanged})
		}
		health := helm.Health{Status: status.CurrentStatus}
		if entry.Kind == "Deployment" {
			health = r.health
		}
		snapshot.Health = append(snapshot.Health, helm.ObjectHealth{Object: entry.ObjectReference, Health: health})
	}
	return snapshot, nil
}

// Decide implements Engine.
func (e *engine) Decide(wanted helm.Release, observed helm.Snapshot) (helm.Decision, error) {
	inputs, err := wanted.InputDigest()
	if err != nil {
		return helm.Decision{}, err
	}
	return helm.Decide(inputs, observed, began, time.Minute), nil
}

// Execute implements Engine.
func (e *engine) Execute(_ context.Context, wanted helm.Release, decision helm.Decision, _ helm.Baseline) (*helm.Deployed, error) {
	e.calls.add(fmt.Sprintf("%s %s %s", decision.Action, wanted.Name, decision.Cause))
	if e.executing != nil {
		e.executing()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted = wanted
	r := e.releases[wanted.Key()]
	if r == nil {
		r = &fakeRelease{live: map[string]helm.InventoryEntry{}, health: healthy}
		e.releases[wanted.Key()] = r
	}
	switch decision.Action {
	case helm.ActionWait:
		return nil, &helm.BusyError{Release: wanted.Key().String(), Status: "being changed", RetryAfter: decision.RetryAfter}
	case helm.ActionInstall, helm.ActionUpgrade:
		inputs, err := wanted.InputDigest()
		if err != nil {
			return nil, err
		}
		err = e.nextFailure()
		if err == nil || leavesRecord(err) {
			r.attempt(wanted.Chart, inputs, decision.Replace != 0, err == nil)
		}
		if err != nil {
			return nil, err
		}
		r.apply(wanted.Key(), kinds)
	case helm.ActionRollback:
		inputs, err := wanted.InputDigest()
		if err != nil {
			return nil, err
		}
		if err := e.nextFailure(); err != nil {
			return nil, err
		}
		r.rollBack(decision.To, inputs)
		r.apply(wanted.Key(), kinds)
	case helm.ActionReapply, helm.ActionRepair:
		if err := e.nextFailure(); err != nil {
			return nil, err
		}
		drifted := kinds
		if decision.Action == helm.ActionRepair {
			drifted = nil
			for _, drift := range decision.Drifts {
				drifted = append(drifted, drift.Object.Kind)
			}
		}
		r.apply(wanted.Key(), drifted)
	}
	return r.deployed(wanted.Chart), nil
}

func (e *engine) nextFailure() error {
	if len(e.failures) == 0 {
		return nil
	}
	err := e.failures[0]
	e.failures = e.failures[1:]
	return err
}

// leavesRecord tells the failures that come after the record is written.
func leavesRecord(err error) bool {
	var busy *helm.BusyError
	var refused *helm.RefusedError
	return errors.As(err, &refused) || !helm.IsTerminal(err) && !errors.As(err, &busy)
}

// attempt writes the record of an install or upgrade.
func (r *fakeRelease) attempt(chart *helm.Chart, inputs string, replace, succeeds bool) {
	revision := 1
	if r.record != nil {
		revision = r.record.Revision
		if !replace {
			revision++
			r.past = append(r.past, *r.record)
		}
	}
	r.record = &helm.Record{
		Revision: revision, Status: "failed", Own: true, Inputs: inputs, ChartDigest: chart.Digest()[:16], Changed: began,
	}
	if succeeds {
		r.record.Status = "deployed"
	}
	if r.inputs == nil {
		r.inputs = map[int]string{}
	}
	r.inputs[revision] = inputs
}

// rollBack makes a new revision of an older one, and gives up those inputs.
func (r *fakeRelease) rollBack(to int, inputs string) {
	rolledBack := *r.record
	r.past = append(r.past, *r.record)
	for _, record := range r.past {
		if record.Revision == to {
			rolledBack.ChartDigest = record.ChartDigest
		}
	}
	rolledBack.Revision++
	rolledBack.Status, rolledBack.Inputs = "deployed", r.inputs[to]
	rolledBack.RolledBackTo, rolledBack.Abandoned = to, inputs
	r.record = &rolledBack
}

// lastGood is the newest record before the present one that was deployed.
func (r *fakeRelease) lastGood() *helm.Record {
	for _, record := range slices.Backward(r.past) {
		if record.Status == "deployed" {
			return &record
		}
	}
	return nil
}

// apply makes the objects of these kinds what they should be.
func (r *fakeRelease) apply(key cache.ObjectName, kinds []string) {
	if r.applied == nil {
		r.applied = map[string]helm.InventoryEntry{}
	}
	for _, kind := range kinds {
		r.writes++
		entry, ok := r.live[kind]
		if !ok {
			entry.UID = types.UID(fmt.Sprintf("%s-%d", kind, r.writes))
		}
		entry.ObjectReference = helm.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: key.Namespace, Name: key.Name}
		entry.Digest = "applied-" + r.record.Inputs
		r.live[kind], r.applied[kind] = entry, entry
	}
}

func (r *fakeRelease) deployed(chart *helm.Chart) *helm.Deployed {
	d := &helm.Deployed{
		Revision: r.record.Revision, Chart: chart.Name(), ChartVersion: chart.Version(), AppVersion: chart.AppVersion(),
		ManifestHash: "hash-" + r.record.Inputs,
	}
	for _, kind := range kinds {
		d.Inventory = append(d.Inventory, r.applied[kind])
	}
	return d
}

// Explain implements Engine.
func (e *engine) Explain(_ context.Context, key cache.ObjectName, _ helm.Baseline, drifts []helm.Drift) ([]helm.Explanation, error) {
	e.calls.add("explain " + key.Name)
	e.mu.Lock()
	defer e.mu.Unlock()
	found := make([]helm.Explanation, 0, len(drifts))
	for _, drift := range drifts {
		found = append(found, helm.Explanation{
			Drift: drift, Fields: slices.Clone(e.fields[drift.Object.Kind]), Live: e.releases[key].live[drift.Object.Kind],
		})
	}
	return found, nil
}

// Uninstall implements Engine.
func (e *engine) Uninstall(_ context.Context, key cache.ObjectName, _ helm.Baseline) error {
	e.calls.add("uninstall " + key.Name)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.uninstallErr == nil {
		delete(e.releases, key)
	}
	return e.uninstallErr
}

// Forget implements Engine.
func (e *engine) Forget(key cache.ObjectName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgotten = append(e.forgotten, key.Name)
}

// HasSynced implements Engine.
func (e *engine) HasSynced() bool { return true }

// Subscribe implements Engine.
func (e *engine) Subscribe(subscriber func(cache.ObjectName, helm.Change)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscribers = append(e.subscribers, subscriber)
}

// publish tells the subscribers of a change.
func (e *engine) publish(name string, change helm.Change) {
	for _, subscriber := range e.subscribers {
		subscriber(keyOf(name), change)
	}
}

// meddle lets somebody else change a release.
func (e *engine) meddle(name string, change func(*fakeRelease)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e.releases[keyOf(name)])
}

// passesOver is how often a release was looked at.
func (e *engine) passesOver(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.looks[keyOf(name)]
}

func edits(kind string) func(*fakeRelease) {
	return func(r *fakeRelease) {
		entry := r.live[kind]
		entry.Digest = "edited"
		r.live[kind] = entry
	}
}

func removes(kind string) func(*fakeRelease) {
	return func(r *fakeRelease) { delete(r.live, kind) }
}

func replaces(kind string) func(*fakeRelease) {
	return func(r *fakeRelease) {
		entry := r.live[kind]
		entry.UID = "another"
		r.live[kind] = entry
	}
}

// rewrites lets somebody else write the newest record, as the helm command
// does.
func rewrites(revision int, status string) func(*fakeRelease) {
	return func(r *fakeRelease) {
		r.record = &helm.Record{Revision: revision, Status: status, Changed: began}
	}
}

func becomes(s status.Status, message string, ready int32) func(*fakeRelease) {
	return func(r *fakeRelease) {
		r.health = helm.Health{Status: s, Message: message, Replicas: 1, ReadyReplicas: ready, Selector: "app=a"}
	}
}
