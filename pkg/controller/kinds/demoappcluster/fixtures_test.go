// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	demofake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/test/expect"
)

const (
	namespace = "ns"
	plainKey  = "very-secret-key"
)

var (
	began    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	demoApps = v1alpha1.SchemeGroupVersion.WithResource("demoapps")
	clusters = v1alpha1.SchemeGroupVersion.WithResource("demoappclusters")
)

// world is the environment of a controller under test. Tests update its caches
// explicitly.
type world struct {
	t     *testing.T
	demo  *demofake.Clientset
	clock *clocktesting.FakeClock

	mu       sync.Mutex
	requests map[string]int
	events   []string
	// refuse returns the error of a request.
	refuse func(verb, name string) error

	// unguarded disables the checks for changes of cached objects, which take long with
	// many objects.
	unguarded bool

	apps, clusters cache.SharedIndexInformer
	nodes          *nodeWatch
	controller     *Controller
}

// nodeWatch is a watch of Nodes whose state the test sets.
type nodeWatch struct {
	informer cache.SharedIndexInformer
	// err is the error of Need.
	err error
	// unseen are nodes that the API server has and the cache does not show yet.
	unseen map[string]*metav1.PartialObjectMetadata
	// asked are the nodes that were read from the API server.
	asked []string
}

func (n *nodeWatch) live(_ context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	n.asked = append(n.asked, name)
	if node := n.unseen[name]; node != nil {
		return node, nil
	}
	if object, exists, err := n.informer.GetStore().GetByKey(name); err != nil || exists {
		return object.(*metav1.PartialObjectMetadata), err
	}
	return nil, nil
}

func (n *nodeWatch) Informer() cache.SharedIndexInformer { return n.informer }

func (n *nodeWatch) Need(cache.ObjectName, controller.Enqueuer) error { return n.err }

func newWorld(t *testing.T, nodes ...string) *world {
	t.Helper()
	w := &world{t: t, demo: demofake.NewClientset(), clock: clocktesting.NewFakeClock(began), requests: map[string]int{}}
	controllertest.Stamp(w.demo)
	w.demo.PrependReactor("*", "*", w.react)
	w.nodes = &nodeWatch{informer: cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})}
	for _, name := range nodes {
		w.node(name, nil)
	}
	w.start()
	return w
}

// start creates a new controller, as a new process would.
func (w *world) start() {
	w.t.Helper()
	w.startWith(w.nodes)
}

func (w *world) startWith(nodes NodeWatch) {
	w.t.Helper()
	factory := externalversions.NewSharedInformerFactory(w.demo, 0).Demo().V1alpha1()
	w.apps, w.clusters = factory.DemoApps().Informer(), factory.DemoAppClusters().Informer()
	var err error
	w.controller, err = New(Deps{
		Client:           w.demo.DemoV1alpha1(),
		ClusterInformers: map[string]cache.SharedIndexInformer{"": w.clusters},
		AppInformers:     map[string]cache.SharedIndexInformer{"": w.apps},
		Nodes:            nodes, LiveNode: w.nodes.live, Recorder: w, Clock: w.clock, ResyncPeriod: 10 * time.Minute,
	})
	expect.NoError(w.t, err)
}

func (w *world) react(action clienttesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := ""
	switch a := action.(type) {
	case clienttesting.CreateAction: // Updates are of this form, too.
		accessor, err := meta.Accessor(a.GetObject())
		if err != nil {
			return true, nil, err
		}
		name = accessor.GetName()
	case interface{ GetName() string }:
		name = a.GetName()
	}
	w.requests[strings.TrimSuffix(action.GetVerb()+" "+action.GetResource().Resource+"/"+action.GetSubresource(), "/")]++
	if w.refuse != nil {
		if err := w.refuse(action.GetVerb(), name); err != nil {
			return true, nil, err
		}
	}
	return false, nil, nil
}

// Eventf implements events.EventRecorder.
func (w *world) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, eventType+" "+reason+": "+fmt.Sprintf(note, args...))
}

// take returns the requests since the last call, by verb and resource.
func (w *world) take() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.requests
	w.requests = map[string]int{}
	return taken
}

func (w *world) node(name string, labels map[string]string) {
	w.t.Helper()
	expect.NoError(w.t, w.nodes.informer.GetStore().Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
}

func (w *world) removeNode(name string) {
	w.t.Helper()
	expect.NoError(w.t, w.nodes.informer.GetStore().Delete(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// cluster creates the DemoAppCluster "web".
func (w *world) cluster(change ...func(*v1alpha1.DemoAppCluster)) *v1alpha1.DemoAppCluster {
	w.t.Helper()
	cluster := &v1alpha1.DemoAppCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: v1alpha1.DemoAppClusterSpec{Template: v1alpha1.DemoAppTemplate{
			Spec: v1alpha1.DemoAppSpec{Message: "one", APIKey: plainKey},
		}},
	}
	for _, c := range change {
		c(cluster)
	}
	created, err := w.demo.DemoV1alpha1().DemoAppClusters(namespace).Create(w.t.Context(), cluster, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	w.take()
	return created
}

// grace returns a change of spec.removalGracePeriod.
func grace(d time.Duration) func(*v1alpha1.DemoAppCluster) {
	return func(c *v1alpha1.DemoAppCluster) { c.Spec.RemovalGracePeriod = &metav1.Duration{Duration: d} }
}

func maxUnavailableOf(value string) func(*v1alpha1.DemoAppCluster) {
	parsed := intstr.Parse(value)
	return func(c *v1alpha1.DemoAppCluster) { c.Spec.UpdateStrategy.MaxUnavailable = &parsed }
}

func withMessage(text string) func(*v1alpha1.DemoAppCluster) {
	return func(c *v1alpha1.DemoAppCluster) { c.Spec.Template.Spec.Message = text }
}

// change updates the spec of "web".
func (w *world) change(change func(*v1alpha1.DemoAppCluster)) {
	w.t.Helper()
	cluster := w.stored()
	change(cluster)
	_, err := w.demo.DemoV1alpha1().DemoAppClusters(namespace).Update(w.t.Context(), cluster, metav1.UpdateOptions{})
	expect.NoError(w.t, err)
	w.take()
}

// stored returns "web" as stored by the API server.
func (w *world) stored() *v1alpha1.DemoAppCluster {
	w.t.Helper()
	found, err := w.demo.Tracker().Get(clusters, namespace, "web")
	expect.NoError(w.t, err)
	cluster, ok := found.(*v1alpha1.DemoAppCluster)
	if !ok {
		w.t.Fatalf("stored is a %T", found)
	}
	return cluster.DeepCopy()
}

// all returns the stored apps, sorted by name.
func (w *world) all() []*v1alpha1.DemoApp {
	w.t.Helper()
	list, err := w.demo.Tracker().List(demoApps, v1alpha1.SchemeGroupVersion.WithKind("DemoApp"), namespace)
	expect.NoError(w.t, err)
	apps, ok := list.(*v1alpha1.DemoAppList)
	if !ok {
		w.t.Fatalf("listed a %T", list)
	}
	found := make([]*v1alpha1.DemoApp, 0, len(apps.Items))
	for i := range apps.Items {
		found = append(found, apps.Items[i].DeepCopy())
	}
	slices.SortFunc(found, func(a, b *v1alpha1.DemoApp) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

func (w *world) names() []string {
	w.t.Helper()
	var names []string
	for _, app := range w.all() {
		names = append(names, app.Name)
	}
	return names
}

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

// report gives an app a status at its newest generation, as its controller would.
func (w *world) report(name string, conditions ...metav1.Condition) {
	w.t.Helper()
	app := w.app(name)
	app.Status.Conditions = nil
	for _, c := range conditions {
		c.ObservedGeneration = app.Generation
		c.LastTransitionTime = metav1.NewTime(began)
		app.Status.Conditions = append(app.Status.Conditions, c)
	}
	_, err := w.demo.DemoV1alpha1().DemoApps(namespace).UpdateStatus(w.t.Context(), app, metav1.UpdateOptions{})
	expect.NoError(w.t, err)
	w.take()
}

func (w *world) ready(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.report(name, isSo(apimeta.ConditionReady, apimeta.ReasonHealthy))
	}
}

func (w *world) stalled(name string) {
	w.t.Helper()
	w.report(name, metav1.Condition{Type: apimeta.ConditionReady, Status: metav1.ConditionFalse, Reason: releasev1alpha1.ReasonRenderFailed},
		isSo(apimeta.ConditionStalled, releasev1alpha1.ReasonRenderFailed))
}

// held sets the status of apps whose pods are ready and whose images are not allowed.
func (w *world) held(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.report(name, metav1.Condition{Type: apimeta.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonValidationFailed},
			isSo(apimeta.ConditionStalled, v1alpha1.ReasonValidationFailed))
		app := w.app(name)
		app.Status.DeployedRelease = &releasev1alpha1.DeployedRelease{Name: name, Revision: 1}
		app.Status.LastGoodRevision, app.Status.Replicas, app.Status.ReadyReplicas = 1, 1, 1
		_, err := w.demo.DemoV1alpha1().DemoApps(namespace).UpdateStatus(w.t.Context(), app, metav1.UpdateOptions{})
		expect.NoError(w.t, err)
	}
	w.take()
}

func isSo(conditionType, reason string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: reason}
}

// sync updates the caches.
func (w *world) sync() {
	w.t.Helper()
	list, err := w.demo.Tracker().List(clusters, v1alpha1.SchemeGroupVersion.WithKind("DemoAppCluster"), namespace)
	expect.NoError(w.t, err)
	items, err := meta.ExtractList(list)
	expect.NoError(w.t, err)
	w.fill(w.clusters, items)
	var apps []runtime.Object
	for _, app := range w.all() {
		apps = append(apps, app)
	}
	w.fill(w.apps, apps)
}

// fill updates a cache to the newest versions.
func (w *world) fill(informer cache.SharedIndexInformer, items []runtime.Object) {
	w.t.Helper()
	newest := 0
	list := make([]any, 0, len(items))
	for _, item := range items {
		accessor, err := meta.Accessor(item)
		expect.NoError(w.t, err)
		version, err := strconv.Atoi(accessor.GetResourceVersion())
		expect.NoError(w.t, err)
		newest = max(newest, version)
		list = append(list, item)
	}
	if !w.unguarded {
		controllertest.GuardMutations(w.t, items...)
	}
	expect.NoError(w.t, informer.GetIndexer().Replace(list, strconv.Itoa(max(newest, 1))))
}

// pass updates the caches and makes a pass that must not fail, two seconds after the last
// one.
func (w *world) pass() controller.Result {
	w.t.Helper()
	w.clock.Step(2 * time.Second)
	w.sync()
	result, err := w.latePass()
	expect.NoError(w.t, err)
	return result
}

// latePass makes a pass without updating the caches.
func (w *world) latePass() (controller.Result, error) {
	w.t.Helper()
	result, err := w.controller.Reconcile(context.Background(), cache.NewObjectName(namespace, "web"), controller.SpecChange)
	if err != nil && strings.Contains(err.Error(), plainKey) {
		w.t.Errorf("the error shows the key: %v", err)
	}
	for _, c := range w.stored().Status.Conditions {
		if strings.Contains(c.Message, plainKey) {
			w.t.Errorf("condition %s shows the key: %s", c.Type, c.Message)
		}
	}
	return result, err
}

// conditions returns the conditions of "web" without their messages.
func (w *world) conditions() map[string]string {
	w.t.Helper()
	cluster := w.stored()
	found := map[string]string{}
	for _, c := range cluster.Status.Conditions {
		found[c.Type] = string(c.Status) + " " + c.Reason
		if c.ObservedGeneration != cluster.Generation {
			w.t.Errorf("condition %s is of generation %d, not %d", c.Type, c.ObservedGeneration, cluster.Generation)
		}
	}
	return found
}

func allReady() map[string]string { return map[string]string{"Ready": "True AllReady"} }

func reconciling(reason string) map[string]string {
	return map[string]string{"Ready": "False " + reason, "Reconciling": "True " + reason}
}

func stalled(reason string) map[string]string {
	return map[string]string{"Ready": "False " + reason, "Stalled": "True " + reason}
}

// counts returns desired, current, updated, ready and failed.
func (w *world) counts() [5]int32 {
	w.t.Helper()
	s := w.stored().Status
	return [5]int32{s.Desired, s.Current, s.Updated, s.Ready, s.Failed}
}

// messageOf returns the message of Ready.
func (w *world) messageOf() string {
	w.t.Helper()
	if c := meta.FindStatusCondition(w.stored().Status.Conditions, apimeta.ConditionReady); c != nil {
		return c.Message
	}
	return ""
}

// settled returns a world with "web" on these nodes, ready, and nothing left to do.
func settled(t *testing.T, nodes []string, change ...func(*v1alpha1.DemoAppCluster)) *world {
	t.Helper()
	w := newWorld(t, nodes...)
	w.cluster(change...)
	w.pass()
	w.ready(w.names()...)
	w.pass()
	expect.Equal(t, "conditions at the start", allReady(), w.conditions())
	w.take()
	w.events = nil
	return w
}

var errPlain = errors.New("connection refused")

func invalid(name string) error {
	return apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("DemoApp").GroupKind(), name, nil)
}
