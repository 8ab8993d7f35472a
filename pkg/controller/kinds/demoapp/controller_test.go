// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/served"
	"github.com/example/demoapp-controller/test/expect"
)

// live runs the controller on real informers, in a synctest bubble.
func live(t *testing.T, play func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		applyInOneStep(w)
		ctx, cancel := context.WithCancel(t.Context())
		apps := externalversions.NewSharedInformerFactory(w.demo, 0)
		w.metadata = metadataClient(t)
		secrets := metadatainformer.NewSharedInformerFactory(w.metadata, 0)
		w.apps = apps.Demo().V1alpha1().DemoApps().Informer()
		w.secrets = &watched{informer: secrets.ForResource(corev1.SchemeGroupVersion.WithResource("secrets")).Informer()}
		w.audited = secrets.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps")).Informer()
		w.classes = &watched{informer: secrets.ForResource(ingressClasses).Informer()}
		w.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{served.Definitions: "CustomResourceDefinitionList"})
		crd, err := served.NewDefinitionInformer(w.dynamic, HTTPRouteCRD)
		expect.NoError(t, err)
		w.definition = &watched{informer: crd}
		w.engine.Unsubscribe()
		w.build(testChart(t, "1.0.0"), clock.RealClock{})
		apps.StartWithContext(ctx)
		secrets.Start(ctx.Done())
		go crd.RunWithContext(ctx)
		ended := make(chan error, 1)
		_, lead := ktesting.NewTestContext(t)
		go func() { ended <- w.controller.Run(ctx, lead) }()
		advance(time.Second)

		play(t, w)

		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returned %v", err)
		}
		apps.Shutdown()
		secrets.Shutdown()
	})
}

func metadataClient(t *testing.T) *metadatafake.FakeMetadataClient {
	t.Helper()
	scheme := runtime.NewScheme()
	expect.NoError(t, metav1.AddMetaToScheme(scheme))
	return metadatafake.NewSimpleMetadataClient(scheme)
}

// applyInOneStep makes watches see one update for an applied status, as with an API
// server. The fake clientset alone would send two.
func applyInOneStep(w *world) {
	chain := slices.Clone(w.demo.ReactionChain[1:]) // All but the journal.
	w.demo.PrependReactor("patch", "demoapps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, ok := action.(clienttesting.PatchAction)
		if !ok || patch.GetPatchType() != types.ApplyPatchType {
			return false, nil, nil
		}
		w.calls.Note(action)
		var applied v1alpha1.DemoApp
		if err := json.Unmarshal(patch.GetPatch(), &applied); err != nil {
			return true, nil, err
		}
		app := w.app(patch.GetName())
		if app == nil {
			return true, nil, apierrors.NewNotFound(demoApps.GroupResource(), patch.GetName())
		}
		app.Status = applied.Status
		update := clienttesting.NewUpdateSubresourceAction(demoApps, "status", namespace, app)
		for _, reactor := range chain {
			if !reactor.Handles(update) {
				continue
			}
			if handled, result, err := reactor.React(update); handled {
				return true, result, err
			}
		}
		return false, nil, nil
	})
}

// advance lets time pass, and waits until all goroutines are blocked.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// settle waits until all events are handled.
func settle() { advance(10 * time.Millisecond) }

func (w *world) is(name, conditionType string) string {
	w.t.Helper()
	return w.conditions(name)[conditionType]
}

func TestDependantsInstallAfterDependency(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		w.create(newApp("c", waitsFor("b")))
		w.create(newApp("b", waitsFor("a")))
		settle()
		expect.Equal(t, "c before", "False Waiting", w.is("c", apimeta.ConditionReady))
		expect.Equal(t, "b before", "False Waiting", w.is("b", apimeta.ConditionReady))
		w.create(newApp("a"))
		settle()
		for _, name := range []string{"b", "c"} {
			expect.Equal(t, name+" after", "True Healthy", w.is(name, apimeta.ConditionReady))
			expect.Equal(t, "lastUpgradeReason of "+name, releasev1alpha1.UpgradeReasonCrossCRDependencyBecameReady, w.app(name).Status.LastUpgradeReason)
		}
		observations := w.engine.ObservationsOf(keyOf("b"))
		w.change("a", says("other"))
		settle()
		expect.Equal(t, "observations of b after an unrelated change of a", observations, w.engine.ObservationsOf(keyOf("b")))
	})
}

func TestBrokenCycleInstalls(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		w.create(newApp("a", waitsFor("b")))
		w.create(newApp("b", waitsFor("c")))
		w.create(newApp("c", waitsFor("a")))
		settle()
		for _, name := range []string{"a", "b", "c"} {
			expect.Equal(t, name, "True DependencyCycle", w.is(name, apimeta.ConditionStalled))
		}
		w.change("c", waitsFor(""))
		settle()
		for _, name := range []string{"a", "b", "c"} {
			expect.Equal(t, name, "True Healthy", w.is(name, apimeta.ConditionReady))
		}
	})
}

func TestSecretEventsReconcileApp(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		secrets := corev1.SchemeGroupVersion.WithResource("secrets")
		metadata := func() *metav1.PartialObjectMetadata {
			found, err := w.kube.Tracker().Get(secrets, namespace, "keys")
			expect.NoError(t, err)
			item := metadataOf(t, []runtime.Object{found})[0]
			partial, ok := item.(*metav1.PartialObjectMetadata)
			if !ok {
				t.Fatalf("metadata is a %T", item)
			}
			partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			return partial
		}
		w.create(newApp("a", keyFrom("keys", "k")))
		w.create(newApp("b", keyFrom("others", "k")))
		settle()
		expect.Equal(t, "Ready before", "False SecretNotFound", w.is("a", apimeta.ConditionReady))
		observations := w.engine.ObservationsOf(keyOf("b"))

		w.secret(map[string]string{"k": "first-secret"})
		expect.NoError(t, w.metadata.Tracker().Create(secrets, metadata(), namespace))
		settle()
		expect.Equal(t, "Ready after", "True Healthy", w.is("a", apimeta.ConditionReady))
		w.secret(map[string]string{"k": plainKey})
		expect.NoError(t, w.metadata.Tracker().Update(secrets, metadata(), namespace))
		settle()
		expect.Equal(t, "key", any(plainKey), w.engine.Desired.Values["apiKey"])
		expect.Equal(t, "revision", int64(2), w.app("a").Status.DeployedRelease.Revision)
		expect.NoError(t, w.metadata.Tracker().Delete(secrets, namespace, "keys"))
		settle()
		expect.Equal(t, "Ready in the end", "False SecretNotFound", w.is("a", apimeta.ConditionReady))
		expect.Equal(t, "observations of the app with another Secret", observations, w.engine.ObservationsOf(keyOf("b")))
	})
}

func TestEngineEventsReconcileApp(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		w.create(newApp("a"))
		settle()
		w.calls.Take()
		steps := []struct {
			name   string
			mutate func(*releasetest.Release)
			tell   func()
			want   releasev1alpha1.UpgradeReason
		}{
			{"object", releasetest.Edit("Secret"), func() { w.engine.Publish(keyOf("a"), helm.ObjectChanged) }, releasev1alpha1.UpgradeReasonDriftDetected},
			{"without an event", releasetest.Edit("Secret"), func() { advance(resync * 11 / 10) }, releasev1alpha1.UpgradeReasonPeriodicResync},
			{"record", releasetest.RewriteRecord(2, "deployed"), func() { w.engine.Publish(keyOf("a"), helm.RecordChanged) }, releasev1alpha1.UpgradeReasonDriftDetected},
		}
		for _, step := range steps {
			w.engine.Mutate(keyOf("a"), step.mutate)
			step.tell()
			settle()
			expect.Equal(t, step.name+": reason", step.want, w.app("a").Status.LastUpgradeReason)
			expect.Equal(t, step.name+": Ready", "True Healthy", w.is("a", apimeta.ConditionReady))
		}
		w.engine.Mutate(keyOf("a"), releasetest.SetHealth("Failed", "Progress deadline exceeded", 0))
		w.engine.Publish(keyOf("a"), helm.HealthChanged)
		settle()
		expect.Equal(t, "Ready", "False Unhealthy", w.is("a", apimeta.ConditionReady))
	})
}

func TestDeletionIsRetried(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		w.create(newApp("a"))
		settle()
		w.auditErr = apierrors.NewForbidden(corev1.Resource("configmaps"), "x", errPlain)
		w.delete("a")
		settle()
		expect.Equal(t, "Ready", "False AuditFailed", w.is("a", apimeta.ConditionReady))
		w.demo.Lock() // The reactors read auditErr under these locks.
		w.kube.Lock()
		w.auditErr = nil
		w.kube.Unlock()
		w.demo.Unlock()
		advance(time.Minute)
		settle()
		if w.app("a") != nil {
			t.Error("the app still exists")
		}
		expect.Equal(t, "records", 1, len(w.records()))
	})
}

func TestCachesToSync(t *testing.T) {
	var names []string
	for _, synced := range newWorld(t).controller.Synced() {
		names = append(names, synced.Name)
	}
	expect.Equal(t, "caches", []string{"demoapp", "dependants of demoapp", "release records", "rivals of demoapps", "audit records"}, names)
}

func TestNewFails(t *testing.T) {
	w := newWorld(t)
	apps := externalversions.NewSharedInformerFactory(w.demo, 0).Demo().V1alpha1().DemoApps().Informer()
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	apps.RunWithContext(stopped)

	_, err := New(Deps{
		AppInformers: map[string]cache.SharedIndexInformer{"": apps}, Sources: w.sources,
		Engine: w.engine, Chart: testChart(t, "1.0.0"), Clock: w.clock,
	})
	if err == nil {
		t.Error("no error for an informer of apps that was stopped")
	}
}
