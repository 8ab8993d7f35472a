// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

const (
	namespace   = "ns"
	secretValue = "very \"secret\" <key>"
	resync      = 10 * time.Minute
	// reasonWaiting is the reason of the Shop's own blocker, and reasonNoSecret the reason of an
	// unknown value.
	reasonWaiting, reasonNoSecret = "Waiting", "SecretNotFound"
)

var (
	began    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	errPlain = errors.New("connection refused")
	// errHook is final after the last retry.
	errHook = &helm.HookError{Err: errPlain}
)

// world is the environment of Shops under test: a fake API server, a fake engine and a fake
// clock. A test makes each pass itself. Writes and calls of the engine are in one journal.
type world struct {
	t        *testing.T
	server   *fakeapi.Server
	client   dynamic.Interface
	engine   *releasetest.Engine
	recorder *controllertest.Recorder
	clock    *clocktesting.FakeClock
	calls    *controllertest.Journal

	// Errors for writes, while they are set. secretErr is the error of reading the Secret.
	patchErr, statusErr, secretErr error
	// wrote is called after each write of a status.
	wrote func()
	// secret is the content of the Secret; "" for no Secret. Each version has another number.
	secret  string
	version int
	// defaults are values that the operator gives all Shops; "" for none.
	defaults string
	// optionalKind says that the cluster has the optional kind.
	optionalKind bool
	// unversioned says that the binding cannot identify the inputs of a release.
	unversioned bool
	licenses    release.Licenses
	// limits limit the rollout of a newer chart; zero for no rollout.
	limits rollout.Limits

	informer cache.SharedIndexInformer
	registry *prometheus.Registry
	chart    *chart.Chart
	loop     *release.Loop[*Shop, ShopStatus]
}

func newWorld(t *testing.T) *world {
	t.Helper()
	calls := &controllertest.Journal{}
	w := &world{
		t: t, server: fakeapi.New(t), engine: releasetest.New(began, calls.Add), recorder: &controllertest.Recorder{},
		clock: clocktesting.NewFakeClock(began), calls: calls,
	}
	w.server.Serve(shops, shopKind.Kind, true)
	var err error
	w.client, err = dynamic.NewForConfigAndClient(w.server.RESTConfig(), w.server.HTTPClient())
	expect.NoError(t, err)
	w.start(testChart(t, "1.0.0"))
	return w
}

// start creates a new controller, as a new process would.
func (w *world) start(chart *chart.Chart) {
	w.t.Helper()
	w.informer = cache.NewSharedIndexInformer(&cache.ListWatch{}, &Shop{}, 0, cache.Indexers{})
	w.build(chart, w.clock)
}

// build creates a controller on the world's informer.
func (w *world) build(chart *chart.Chart, clock clock.WithTicker) {
	w.t.Helper()
	w.registry, w.chart = prometheus.NewRegistry(), chart
	metrics := controller.NewMetrics(w.registry)
	definition := kind.Definition[*Shop, ShopStatus]{
		Name: "shop", GroupVersionKind: shopKind, FieldManager: "shops",
		Client:    func(namespace string) controller.Patcher[*Shop] { return recordingClient{w, namespace} },
		Status:    func(shop *Shop) *ShopStatus { return &shop.Status },
		Finalizer: "shop.example.com/finalizer",
		Gates:     []kind.Gate{kind.HeldFor("dependency", reasonWaiting)},
	}
	definition.Gates[0].NeedsUser = false
	deps := kind.Deps{
		Informers: map[string]cache.SharedIndexInformer{metav1.NamespaceAll: w.informer},
		Recorder:  w.recorder, Metrics: metrics, Clock: clock, ResyncPeriod: resync,
	}
	var err error
	w.loop, err = release.NewLoop(definition, deps, w.engine, worldBinding{w}, release.Options[*Shop]{
		Rollout: release.Rollout{Chart: chart, Limits: w.limits},
		License: release.License[*Shop]{Server: w.licenses, Retry: 2 * time.Minute, Image: func(*Shop) string { return "image" }},
		Secrets: func(*Shop) []string { return []string{secretValue} },
	})
	expect.NoError(w.t, err)
}

// rollout returns the counts of the rollout in the metrics.
func (w *world) rollout() rollout.Counts {
	w.t.Helper()
	return w.loop.Rollout()
}

// worldBinding is the binding of the example, with what tests change.
type worldBinding struct{ *world }

// Status implements release.Binding.
func (worldBinding) Status(s *ShopStatus) *releasev1alpha1.ReleaseStatus { return &s.ReleaseStatus }

// Release implements release.Binding.
func (b worldBinding) Release(shop *Shop) (helm.Release, releasev1alpha1.ReleasePolicy) {
	return binding{b.chart}.Release(shop)
}

// Desired implements release.Binding.
func (b worldBinding) Desired(ctx context.Context, p *kind.Pass[*Shop], desired release.Desired) (release.Desired, error) {
	spec := p.Object.Spec
	desired, err := binding{b.chart}.Desired(ctx, p, desired)
	if err != nil || b.secretErr != nil && spec.FromSecret {
		return desired, errors.Join(err, b.secretErr)
	}
	if spec.WaitFor != "" && !b.isDeployed(spec.WaitFor) {
		desired.Blockers = append(desired.Blockers, release.Blocker{Reason: reasonWaiting, Message: "Waiting for Shop " + spec.WaitFor, NotForRollback: true})
	}
	if !desired.Known {
		return desired, nil
	}
	desired.Release.Values["message"] = spec.Message
	if b.defaults != "" {
		desired.Release.Values["defaults"] = b.defaults
	}
	if spec.FromSecret {
		desired.Known = b.secret != ""
		desired.Release.Values["secret"], desired.Sources = b.secret, b.secret
	}
	if !desired.Known {
		desired.Blockers = append(desired.Blockers, release.Blocker{Reason: reasonNoSecret, Message: "The Secret does not exist"})
		return desired, nil
	}
	if spec.Optional {
		for _, has := range []bool{false, true} {
			variant := desired.Release
			variant.Values = map[string]any{"size": spec.Size, "message": spec.Message, "optional": has}
			desired.Variants = append(desired.Variants, variant)
		}
		desired.Release = desired.Variants[0]
		if b.optionalKind {
			desired.Release = desired.Variants[1]
		}
	}
	if !b.unversioned {
		desired.InputVersion = fmt.Sprint(b.chart.Digest(), b.version, b.optionalKind, b.defaults)
	}
	return desired, nil
}

func (w *world) isDeployed(name string) bool {
	shop := w.shop(name)
	return shop != nil && meta.IsStatusConditionTrue(shop.Status.Conditions, releasev1alpha1.ConditionDeployed)
}

// recordingClient records the writes of Shops, and lets them fail.
type recordingClient struct {
	*world
	namespace string
}

// Patch implements controller.Patcher.
func (c recordingClient) Patch(
	ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) (*Shop, error) {
	verb, err := "patch", c.patchErr
	if patchType == types.ApplyPatchType {
		verb = "apply"
	}
	if len(subresources) > 0 {
		err = c.statusErr
	}
	c.calls.Add(verb + " " + strings.Join(append([]string{"shops"}, subresources...), "/") + " " + name)
	if err != nil {
		return nil, err
	}
	written, err := shopClient{c.client.Resource(shops).Namespace(c.namespace)}.Patch(ctx, name, patchType, data, options, subresources...)
	if len(subresources) > 0 && c.wrote != nil {
		c.wrote()
	}
	return written, err
}

// edit changes or creates a Shop as another client does. The subresource is "status" or "".
func (w *world) edit(name, subresource string, change func(*Shop)) *Shop {
	w.t.Helper()
	var edited *Shop
	object := w.server.EditSubresource("Shop", namespace+"/"+name, "kubectl", subresource, func(object *unstructured.Unstructured) {
		shop, err := shopOf(object)
		expect.NoError(w.t, err)
		change(shop)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(shop)
		expect.NoError(w.t, err)
		managed := object.GetManagedFields()
		object.Object = content
		object.SetGroupVersionKind(shopKind)
		object.SetManagedFields(managed)
	})
	edited, err := shopOf(object)
	expect.NoError(w.t, err)
	return edited
}

// create stores a Shop as the API server would.
func (w *world) create(shop *Shop) *Shop {
	w.t.Helper()
	return w.edit(shop.Name, "", func(created *Shop) { *created = *shop })
}

// change changes the spec or metadata of a Shop as a user.
func (w *world) change(name string, change func(*Shop)) {
	w.t.Helper()
	w.edit(name, "", change)
}

// report changes the status of a Shop.
func (w *world) report(name string, change func(*Shop)) {
	w.t.Helper()
	w.edit(name, "status", change)
}

func (w *world) delete(name string) {
	w.t.Helper()
	w.server.Delete("Shop", namespace+"/"+name)
}

// shop returns the stored Shop; nil for an absent Shop.
func (w *world) shop(name string) *Shop {
	w.t.Helper()
	object := w.server.Object("Shop", namespace+"/"+name)
	if object == nil {
		return nil
	}
	shop, err := shopOf(object)
	expect.NoError(w.t, err)
	return shop
}

// setSecret sets the content of the Secret; "" deletes it.
func (w *world) setSecret(content string) {
	w.secret = content
	w.version++
}

// sync updates the cache.
func (w *world) sync() {
	w.t.Helper()
	var list []any
	for _, name := range w.server.Names() {
		shop := w.shop(strings.TrimPrefix(name, "Shop "+namespace+"/"))
		controllertest.GuardMutations(w.t, shop)
		list = append(list, shop)
	}
	expect.NoError(w.t, w.informer.GetIndexer().Replace(list, ""))
}

// pass updates the cache and makes one pass over a Shop.
func (w *world) pass(name string, why controller.Reason) (controller.Result, error) {
	w.t.Helper()
	w.sync()
	return w.latePass(name, why)
}

// latePass makes a pass without updating the cache.
func (w *world) latePass(name string, why controller.Reason) (controller.Result, error) {
	w.t.Helper()
	w.calls.Take()
	result, err := w.loop.Reconcile(w.t.Context(), keyOf(name), why)
	w.checkSecrecy(err)
	if shop := w.shop(name); shop != nil && !errors.Is(err, helm.ErrNotSynced) && !errors.Is(err, controller.ErrNotSynced) {
		releasetest.CheckConditions(w.t, shop, shop.Status.ReleaseStatus)
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

// unfinished makes a pass whose status write may be delayed.
func (w *world) unfinished(name string, why controller.Reason) controller.Result {
	w.t.Helper()
	w.sync()
	result, err := w.loop.Reconcile(w.t.Context(), keyOf(name), why)
	expect.NoError(w.t, err)
	return result
}

// failing changes the spec and makes attempts that fail.
func (w *world) failing(times int) {
	w.t.Helper()
	w.change("a", says("bad"))
	for range times {
		w.engine.Failures = []error{errPlain}
		if _, err := w.pass("a", controller.SpecChange|controller.Retry); err == nil {
			w.t.Fatal("no error")
		}
	}
	w.recorder.Take()
}

// deployed returns a world with the deployed Shop "a", and nothing left to do.
func deployed(t *testing.T, change ...func(*Shop)) *world {
	t.Helper()
	w := newWorld(t)
	w.create(newShop("a", change...))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions at the start", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
	w.recorder.Take()
	w.clock.Step(time.Minute)
	return w
}

// conditions returns a Shop's conditions without their messages.
func (w *world) conditions(name string) map[string]string {
	w.t.Helper()
	return releasetest.ConditionsOf(w.shop(name).Status.Conditions)
}

// message returns the message of one of a Shop's conditions.
func (w *world) message(name, conditionType string) string {
	w.t.Helper()
	return releasetest.Message(w.shop(name).Status.Conditions, conditionType)
}

func newShop(name string, change ...func(*Shop)) *Shop {
	shop := &Shop{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       ShopSpec{Size: 1, Message: "hello"},
		Status:     ShopStatus{ReleaseStatus: releasev1alpha1.ReleaseStatus{ObservedGeneration: -1}},
	}
	for _, c := range change {
		c(shop)
	}
	return shop
}

func waitsFor(name string) func(*Shop) { return func(shop *Shop) { shop.Spec.WaitFor = name } }

func says(message string) func(*Shop) { return func(shop *Shop) { shop.Spec.Message = message } }

func fromSecret(shop *Shop) { shop.Spec.FromSecret = true }

func keyOf(name string) cache.ObjectName { return cache.NewObjectName(namespace, name) }

// testChart returns a chart without templates.
func testChart(t *testing.T, version string) *chart.Chart {
	t.Helper()
	chart, err := chart.LoadFS(fstest.MapFS{
		"Chart.yaml": {Data: []byte("apiVersion: v2\nname: shop\nversion: " + version + "\nappVersion: \"1.27\"\n")},
	}, ".")
	expect.NoError(t, err)
	return chart
}

// checkSecrecy checks that errors, events and statuses do not show secretValue, in any form
// in which a message or a Secret may write it.
func (w *world) checkSecrecy(err error) {
	w.t.Helper()
	said := fmt.Sprintln(err, w.recorder.All())
	for _, name := range []string{"a", "b"} {
		if shop := w.shop(name); shop != nil {
			whole, err := json.Marshal(shop.Status)
			expect.NoError(w.t, err)
			said += fmt.Sprintln(shop.Status.Conditions, shop.Status.History, string(whole))
		}
	}
	if releasetest.Shows(said, secretValue) {
		w.t.Errorf("shows the secret: %s", said)
	}
}
