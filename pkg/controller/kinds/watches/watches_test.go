// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

const prefix = "helm.sdk.operatorframework.io/"

var size3 = map[string]any{"size": int64(3)}

// TestLifecycle plays install, upgrade, repair and uninstall, and counts the requests.
func TestLifecycle(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", map[string]any{"size": int64(3)})
		expect.Equal(w.t, "requests of the install", []string{
			"patch memcacheds default/a", "create secrets default", "apply configmaps default/a",
			"update secrets default/sh.helm.release.v1.a.v1", "apply memcacheds/status default/a",
		}, w.TakeRequests())
		expect.Equal(w.t, "data", "3", w.field("ConfigMap", "default/a", "data", "size"))
		expect.Equal(w.t, "conditions", []string{
			"Deployed True InstallSuccessful", "Initialized True ChartLoaded", "Irreconcilable False Reconciled", "Ready True Healthy",
		}, w.conditions("default/a"))
		expect.Equal(w.t, "events", []string{"a Normal Installed Install Installed revision 1 of chart memcached 1.0.0 (SpecGenerationChanged)"}, w.Recorder.Take())

		w.change("default/a", func(object *unstructured.Unstructured) {
			object.Object["spec"] = map[string]any{"size": int64(5)}
		})
		expect.Equal(w.t, "data after the upgrade", "5", w.field("ConfigMap", "default/a", "data", "size"))
		w.has("conditions after the upgrade", w.conditions("default/a"), "Deployed True UpgradeSuccessful", "Ready True Healthy")
		w.TakeRequests()

		w.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) {
			object.Object["data"] = map[string]any{"size": "7"}
		})
		w.Settle()
		expect.Equal(w.t, "data after the repair", "5", w.field("ConfigMap", "default/a", "data", "size"))
		w.Settle()
		w.TakeRequests()
		w.Settle()
		expect.Equal(w.t, "requests at rest", []string{}, w.TakeRequests())

		w.Delete("Memcached", "default/a")
		w.Settle()
		expect.Equal(w.t, "objects", []string{}, w.Names())
		expect.Equal(w.t, "records", []string{}, w.HelmRecords())
	})
}

// TestPaused: a paused custom resource keeps its release as it is, and waits with its
// deletion.
func TestPaused(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", size3)
		w.change("default/a", func(object *unstructured.Unstructured) {
			object.Object["spec"] = map[string]any{"size": int64(5)}
			annotate(object, "demo.example.com/paused", "true")
		})
		expect.Equal(w.t, "data", "3", w.field("ConfigMap", "default/a", "data", "size"))
		w.has("conditions", w.conditions("default/a"), "Paused True PauseReconcileAnnotationTrue", "Suspended True SuspendedByAnnotation")
		expect.Contains(w.t, "message", w.message("default/a", "Ready"), "annotation demo.example.com/paused is false")

		w.Delete("Memcached", "default/a")
		w.Settle()
		expect.Equal(w.t, "data while the deletion waits", "3", w.field("ConfigMap", "default/a", "data", "size"))
		expect.Contains(w.t, "message", w.message("default/a", "Ready"), "Deletion waits until annotation demo.example.com/paused")

		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, "demo.example.com/paused", "false") })
		expect.Equal(w.t, "objects", []string{}, w.Names())
	})
}

// TestPauseHandler: a function of the program pauses custom resources. No hook runs
// meanwhile, and its error holds the release.
func TestPauseHandler(t *testing.T) {
	type answer struct {
		paused bool
		err    error
	}
	var handler atomic.Pointer[answer]
	handler.Store(&answer{})
	var hooks atomic.Int64
	kind := caches(t)
	kind.Paused = func(context.Context, *unstructured.Unstructured) (bool, error) {
		now := handler.Load()
		return now.paused, now.err
	}
	kind.PreHooks = []watches.PreHook{func(context.Context, *unstructured.Unstructured, map[string]any, klog.Logger) error {
		hooks.Add(1)
		return nil
	}}
	resize := func(w *world, size int64) {
		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": size} })
	}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		handler.Store(&answer{paused: true})
		hooks.Store(0)
		resize(w, 5)
		expect.Equal(w.t, "data", "3", w.field("ConfigMap", "default/a", "data", "size"))
		expect.Equal(w.t, "hooks while it is paused", int64(0), hooks.Load())
		w.has("conditions", w.conditions("default/a"), "Paused True PauseReconcileAnnotationTrue", "Ready False SuspendedByHandler")
		expect.Contains(w.t, "message", w.message("default/a", "Paused"), "The operator pauses this resource")

		handler.Store(&answer{err: errors.New("no answer")})
		resize(w, 6)
		expect.Equal(w.t, "data", "3", w.field("ConfigMap", "default/a", "data", "size"))
		w.has("conditions", w.conditions("default/a"), "Irreconcilable True ReconcileError", "Deployed True InstallSuccessful")
		expect.Contains(w.t, "message", w.message("default/a", "Irreconcilable"), "pause handler of memcached.v1.cache.my.domain: no answer")

		handler.Store(&answer{})
		w.Wait(time.Minute)
		expect.Equal(w.t, "data", "6", w.field("ConfigMap", "default/a", "data", "size"))
		handler.Store(&answer{paused: true})
		w.Delete("Memcached", "default/a")
		w.Settle()
		expect.Contains(w.t, "message", w.message("default/a", "Ready"), "Deletion waits until the answer of the operator's pause handler is no longer true")
	})
}

// TestFurtherWatch: an event of a further informer starts a reconcile, and the informer has
// no handler of a kind that has stopped.
func TestFurtherWatch(t *testing.T) {
	bubble(t, nil, func(w *world) {
		client, err := dynamic.NewForConfigAndClient(w.RESTConfig(), w.HTTPClient())
		expect.NoError(w.t, err)
		secrets := dynamicinformer.NewFilteredDynamicInformer(client, corev1.SchemeGroupVersion.WithResource("secrets"), "", 0, cache.Indexers{},
			func(options *metav1.ListOptions) { options.LabelSelector = "example.com/size" }).Informer()
		ctx, stop := context.WithCancel(w.t.Context())
		var running sync.WaitGroup
		running.Go(func() { secrets.RunWithContext(ctx) })
		defer running.Wait()
		defer stop()
		events := 0
		kind := caches(t)
		kind.Watches = []watches.Watch{{Name: "sizes", Informer: secrets, Keys: func(object metav1.Object) []cache.ObjectName {
			events++
			return []cache.ObjectName{cache.NewObjectName(object.GetNamespace(), object.GetLabels()["example.com/size"])}
		}}}
		kind.Translator = func(context.Context, *unstructured.Unstructured) (map[string]any, error) {
			found, exists, err := secrets.GetStore().GetByKey("default/sizes")
			if err != nil || !exists {
				return nil, errors.Join(errors.New("Secret sizes: does not exist"), err)
			}
			return map[string]any{"size": found.(*unstructured.Unstructured).GetAnnotations()["size"]}, nil
		}
		expect.NoError(w.t, w.manager.Update(kind))
		w.create("default/a", map[string]any{})
		expect.Contains(w.t, "message", w.message("default/a", "Ready"), "Secret sizes: does not exist")
		set := func(size string) {
			w.Edit("Secret", "default/sizes", "kubectl", func(object *unstructured.Unstructured) {
				object.SetLabels(map[string]string{"example.com/size": "a"})
				annotate(object, "size", size)
			})
			w.Settle()
		}

		set("7")
		expect.Equal(w.t, "data", "7", w.field("ConfigMap", "default/a", "data", "size"))
		set("8")
		expect.Equal(w.t, "data", "8", w.field("ConfigMap", "default/a", "data", "size"))

		expect.NoError(w.t, w.manager.Update())
		w.Settle()
		events = 0
		set("9")
		expect.Equal(w.t, "events after the end of the kind", 0, events)
	})
}

// TestInvalidKinds: one error names all mistakes in the kinds of a program.
func TestInvalidKinds(t *testing.T) {
	apply := func(string, *helm.Release) error { return nil }
	bubble(t, nil, func(w *world) {
		kind := caches(t)
		kind.Overrides = map[string]string{"a[": "1"}
		kind.Annotations = []watches.Annotation{
			{Name: "example.com/twice", Apply: apply},
			{Name: "example.com/twice", Apply: apply},
			{Name: prefix + "upgrade-force", Apply: apply},
			{Name: "example.com/none"},
		}
		kind.Watches = []watches.Watch{{Name: "sizes"}}
		err := w.manager.Update(kind, watches.ReleaseKind{GroupVersionKind: memcached})
		if err == nil {
			t.Fatal("invalid kinds are accepted")
		}
		expect.Contains(w.t, "error", err.Error(), `set "a["`, `annotation "example.com/twice"`, `annotation "`+prefix+`upgrade-force"`,
			`annotation "example.com/none"`, `watch "sizes"`, "version, kind and chart are required", "is watched twice")
	})
}

// TestTwoKindsWithOneName: the second kind with a custom resource of one name does not touch
// the release of the first, and its deletion leaves the release watched.
func TestTwoKindsWithOneName(t *testing.T) {
	backups := caches(t)
	backups.GroupVersionKind.Kind = "Backup"
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.Serve(memcacheds.GroupVersion().WithResource("backups"), "Backup", true)
		w.create("default/a", size3)
		expect.NoError(w.t, w.manager.Update(caches(t), backups))
		w.Settle()
		w.Edit("Backup", "default/a", "kubectl", func(object *unstructured.Unstructured) {
			object.Object["spec"] = map[string]any{"size": int64(9)}
		})
		w.Settle()
		expect.Equal(w.t, "data", "3", w.field("ConfigMap", "default/a", "data", "size"))
		expect.Contains(w.t, "status of the second", w.field("Backup", "default/a", "status", "conditions"), "OwnershipConflict")

		w.Delete("Backup", "default/a")
		w.Settle()
		expect.Equal(w.t, "data", "3", w.field("ConfigMap", "default/a", "data", "size"))
		w.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) {
			object.Object["data"] = map[string]any{"size": "7"}
		})
		w.Settle()
		expect.Equal(w.t, "data after drift", "3", w.field("ConfigMap", "default/a", "data", "size"))
	})
}

// TestClusterScopedKind: the release is in the configured namespace.
func TestClusterScopedKind(t *testing.T) {
	fleets := caches(t)
	fleets.GroupVersionKind.Kind = "Fleet"
	bubble(t, nil, func(w *world) {
		w.Serve(memcacheds.GroupVersion().WithResource("fleets"), "Fleet", false)
		expect.NoError(w.t, w.manager.Update(fleets))
		w.Settle()
		expect.Equal(w.t, "waiting", true, w.waiting["fleet.v1.cache.my.domain"])

		fleets.ReleaseNamespace, fleets.Revision = "caches", "2"
		expect.NoError(w.t, w.manager.Update(fleets))
		w.Settle()
		w.Edit("Fleet", "a", "kubectl", func(object *unstructured.Unstructured) { object.Object["spec"] = size3 })
		w.Settle()
		expect.Equal(w.t, "data", "3", w.field("ConfigMap", "caches/a", "data", "size"))
		w.Edit("ConfigMap", "caches/a", "kubectl", func(object *unstructured.Unstructured) {
			object.Object["data"] = map[string]any{"size": "7"}
		})
		w.Settle()
		expect.Equal(w.t, "data after drift", "3", w.field("ConfigMap", "caches/a", "data", "size"))
		w.Delete("Fleet", "a")
		w.Settle()
		expect.Equal(w.t, "objects", []string{}, w.Names())
	})
}

// TestCRDComesAndGoes: a kind waits for its CRD, and follows it when it is removed and
// created again.
func TestCRDComesAndGoes(t *testing.T) {
	backups := caches(t)
	backups.GroupVersionKind.Kind = "Backup"
	resource := memcacheds.GroupVersion().WithResource("backups")
	bubble(t, []watches.ReleaseKind{backups}, func(w *world) {
		expect.Equal(w.t, "waiting at the start", true, w.waiting[backups.Name()])
		define := func(name string) {
			w.Edit("CustomResourceDefinition", name, "kubectl", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{} })
		}
		for range 2 {
			w.Serve(resource, "Backup", true)
			define("backups.cache.my.domain")
			w.Settle()
			expect.Equal(w.t, "waiting with the CRD", false, w.waiting[backups.Name()])
			w.Edit("Backup", "default/b", "kubectl", func(object *unstructured.Unstructured) { object.Object["spec"] = size3 })
			w.Settle()
			expect.Equal(w.t, "data", "3", w.field("ConfigMap", "default/b", "data", "size"))
			w.Delete("Backup", "default/b")
			w.Settle()
			expect.Equal(w.t, "data after the deletion", "", w.field("ConfigMap", "default/b", "data", "size"))
			w.With(func() { delete(w.Kinds, resource) })
			w.Remove("CustomResourceDefinition", "backups.cache.my.domain")
			w.Settle()
			expect.Equal(w.t, "waiting without the CRD", true, w.waiting[backups.Name()])
		}
	})
}

// TestKindWaitsForItsPermissions: a kind whose CRD is installed later does not start before the
// operator has its permissions. The wait ends with the CRD.
func TestKindWaitsForItsPermissions(t *testing.T) {
	backups := caches(t)
	backups.GroupVersionKind.Kind = "Backup"
	resource := memcacheds.GroupVersion().WithResource("backups")
	bubble(t, nil, func(w *world) {
		w.Stop()
		granted, asked, ended := make(chan struct{}), 0, 0
		w.permitted = func(ctx context.Context, _ watches.ReleaseKind) error {
			asked++
			select {
			case <-granted:
				return nil
			case <-ctx.Done():
				ended++
				return ctx.Err()
			}
		}
		w.start(backups)
		w.Settle()
		expect.Equal(w.t, "questions without the CRD", 0, asked)
		install := func() {
			w.Serve(resource, "Backup", true)
			w.Edit("CustomResourceDefinition", "backups.cache.my.domain", "kubectl", func(object *unstructured.Unstructured) {
				object.Object["spec"] = map[string]any{}
			})
			w.Settle()
		}

		install()
		w.Edit("Backup", "default/b", "kubectl", func(object *unstructured.Unstructured) { object.Object["spec"] = size3 })
		w.Settle()
		expect.Equal(w.t, "data without permissions", "", w.field("ConfigMap", "default/b", "data", "size"))
		expect.Equal(w.t, "waiting without permissions", true, w.waiting[backups.Name()])
		w.With(func() { delete(w.Kinds, resource) })
		w.Remove("CustomResourceDefinition", "backups.cache.my.domain")
		w.Settle()
		expect.Equal(w.t, "waits that ended with the CRD", 1, ended)

		install()
		expect.Equal(w.t, "questions with the CRD", 2, asked)
		close(granted)
		w.Settle()
		expect.Equal(w.t, "waiting with permissions", false, w.waiting[backups.Name()])
		expect.Equal(w.t, "data", "3", w.field("ConfigMap", "default/b", "data", "size"))
	})
}

// TestSelector: only selected custom resources have a release, also when labels change.
func TestSelector(t *testing.T) {
	kind := caches(t)
	kind.Selector = labels.SelectorFromSet(labels.Set{"tier": "gold"})
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		label := func(tier string) {
			w.change("default/a", func(object *unstructured.Unstructured) {
				object.Object["spec"] = size3
				object.SetLabels(map[string]string{"tier": tier})
			})
		}
		label("silver")
		expect.Equal(w.t, "data of an unselected resource", "", w.field("ConfigMap", "default/a", "data", "size"))
		label("gold")
		expect.Equal(w.t, "data of a selected resource", "3", w.field("ConfigMap", "default/a", "data", "size"))
		label("silver")
		expect.Equal(w.t, "data when it is no longer selected", "3", w.field("ConfigMap", "default/a", "data", "size"))
		w.TakeRequests()
		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(4)} })
		expect.Equal(w.t, "requests for an unselected resource", []string{}, w.TakeRequests())
		label("gold")
		expect.Equal(w.t, "data when it is selected again", "3", w.field("ConfigMap", "default/a", "data", "size"))
	})
}

// TestUnselectedResources names custom resources that are not selected and that have the finalizer of a
// release. A deletion completes once they are selected.
func TestUnselectedResources(t *testing.T) {
	kind := caches(t)
	kind.Selector = labels.SelectorFromSet(labels.Set{"tier": "gold"})
	bubble(t, nil, func(w *world) {
		w.leave(operatorSDK)
		w.Edit("Memcached", "default/b", "kubectl", func(object *unstructured.Unstructured) { object.Object["spec"] = size3 })

		w.watch(kind)

		const named = `a Warning NotSelected Reconcile The selector "tier=gold" of watches.yaml does not select this resource, so this operator ` +
			"neither serves it nor removes its finalizer: give it the labels, or remove the finalizer, see docs/migration.md"
		expect.Equal(w.t, "events", []string{named}, w.Recorder.Take())
		expect.Equal(w.t, "count", 1, w.unselected(kind.Name()))
		w.Delete("Memcached", "default/a")
		w.Settle()
		expect.Equal(w.t, "is left", true, w.Object("Memcached", "default/a") != nil)
		w.change("default/a", func(object *unstructured.Unstructured) { object.SetLabels(map[string]string{"tier": "gold"}) })
		expect.Equal(w.t, "objects", []string{"Memcached default/b"}, w.Names())
		w.Wait(resync)
		expect.Equal(w.t, "count after the deletion", 0, w.unselected(kind.Name()))
	})
}

// TestNoStatusSubresource: an event says that a CRD lacks the status subresource.
func TestNoStatusSubresource(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.With(func() {
			w.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if request.Key.Resource == memcacheds && request.Subresource == "status" {
					return apierrors.NewNotFound(memcacheds.GroupResource(), "a")
				}
				return nil
			}
		})

		w.create("default/a", size3)

		expect.Equal(w.t, "records", []string{"a.v1 deployed"}, w.HelmRecords())
		w.has("events", w.Recorder.Take(), "a Warning StatusNotWritten Reconcile The API server does not store the status, so the operator keeps it in memory only: "+
			"enable the status subresource in the CRD (subresources: {status: {}})")
	})
}

// TestPrunedStatus: a CRD that removes our fields from the status costs neither a loop nor a
// repeated apply.
func TestPrunedStatus(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.With(func() {
			w.Prune = func(object *unstructured.Unstructured) {
				kept := map[string]any{}
				if conditions, ok, _ := unstructured.NestedSlice(object.Object, "status", "conditions"); ok {
					kept["conditions"] = conditions
				}
				object.Object["status"] = kept
			}
		})
		w.create("default/a", size3)
		expect.Equal(w.t, "inventory", "", w.field("Memcached", "default/a", "status", "inventory"))
		w.has("conditions", w.conditions("default/a"), "Ready True Healthy")
		events := w.Recorder.Take()
		w.has("events", events, "a Warning StatusPruned Reconcile The CRD removes fields of the status, so the operator keeps them in memory only: "+
			"set x-kubernetes-preserve-unknown-fields: true on status in the CRD")
		w.TakeRequests()

		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, prefix+"upgrade-description", "text") })
		expect.Equal(w.t, "requests of a pass without a change", []string{}, w.TakeRequests())
		w.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) {
			object.Object["data"] = map[string]any{"size": "7"}
		})
		w.Settle()
		expect.Equal(w.t, "data after drift", "3", w.field("ConfigMap", "default/a", "data", "size"))

		w.Stop()
		w.TakeRequests()
		w.start(caches(t))
		w.Settle()
		first := w.TakeRequests()
		if len(first) == 0 {
			t.Error("the baseline was not rebuilt after the restart")
		}
		w.Settle()
		expect.Equal(w.t, "requests at rest after the restart", []string{}, w.TakeRequests())
		expect.Equal(w.t, "revisions", []string{"a.v1 deployed"}, w.HelmRecords())
	})
}

// TestStatusOfOthers: fields and conditions of other field managers survive.
func TestStatusOfOthers(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", size3)
		w.EditSubresource("Memcached", "default/a", "other", "status", func(object *unstructured.Unstructured) {
			expect.NoError(w.t, unstructured.SetNestedField(object.Object, "mine", "status", "note"))
			conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
			expect.NoError(w.t, err)
			conditions = append(conditions, map[string]any{
				"type": "Backed", "status": "True", "reason": "Nightly", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
			})
			expect.NoError(w.t, unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions"))
		})
		w.Settle()
		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(5)} })
		expect.Equal(w.t, "field of another manager", "mine", w.field("Memcached", "default/a", "status", "note"))
		w.has("conditions", w.conditions("default/a"), "Backed True Nightly", "Deployed True UpgradeSuccessful")
	})
}

// TestStatusManifest: the manifest is in the status only if the kind has it.
func TestStatusManifest(t *testing.T) {
	kind := caches(t)
	kind.StatusManifest = true
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		expect.Contains(w.t, "manifest", w.field("Memcached", "default/a", "status", "deployedRelease", "manifest"), "kind: ConfigMap", `size: "3"`)
		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(5)} })
		expect.Contains(w.t, "manifest", w.field("Memcached", "default/a", "status", "deployedRelease", "manifest"), `size: "5"`)
		w.Stop()
		w.start(caches(t))
		w.Settle()
		expect.Equal(w.t, "manifest without the option", "", w.field("Memcached", "default/a", "status", "deployedRelease", "manifest"))
	})
}

// TestOverrides: values of the kind win over the spec, and an event names them without
// their values.
func TestOverrides(t *testing.T) {
	kind := caches(t)
	kind.Overrides = map[string]string{"image": "s3cret/image"}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", map[string]any{"size": int64(3), "image": "mine"})
		expect.Equal(w.t, "data", "s3cret/image", w.field("ConfigMap", "default/a", "data", "image"))
		w.has("events", w.Recorder.Take(), "a Normal ValuesOverridden Reconcile The operator overrides the values image")
	})
}

// TestOverridesAsTexts reads overrides as operator-sdk's helm-operator does.
func TestOverridesAsTexts(t *testing.T) {
	for texts, image := range map[bool]string{true: "null", false: "none"} {
		kind := caches(t)
		kind.Overrides, kind.OverrideTexts = map[string]string{"image": "null"}, texts
		bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
			w.create("default/a", map[string]any{"size": int64(3), "image": "mine"})
			expect.Equal(w.t, "data", image, w.field("ConfigMap", "default/a", "data", "image"))
		})
	}
}

// TestInvalidValues: values that cannot be determined keep the release as it is.
func TestInvalidValues(t *testing.T) {
	kind := caches(t)
	kind.Translator = func(_ context.Context, object *unstructured.Unstructured) (map[string]any, error) {
		size, _, _ := unstructured.NestedInt64(object.Object, "spec", "size")
		if size > 10 {
			return nil, controller.Terminal(errors.New("spec.size: must be at most 10"))
		}
		return map[string]any{"size": size * 2}, nil
	}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		expect.Equal(w.t, "data", "6", w.field("ConfigMap", "default/a", "data", "size"))
		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(11)} })
		expect.Equal(w.t, "data", "6", w.field("ConfigMap", "default/a", "data", "size"))
		w.has("conditions", w.conditions("default/a"),
			"Irreconcilable True ErrorGettingValues", "Ready False ValuesInvalid", "Stalled True ValuesInvalid", "Deployed True InstallSuccessful")
		expect.Equal(w.t, "message", "spec.size: must be at most 10", w.message("default/a", "Irreconcilable"))
	})
}

// TestFailedUpgradeIsRolledBack: a failed upgrade is rolled back unless the kind says otherwise,
// whatever the annotation rollback-force is. Deployed stays True.
func TestFailedUpgradeIsRolledBack(t *testing.T) {
	tests := map[string]struct {
		annotations []string
		strategy    releasev1alpha1.RemediationStrategy
		reason      string
		deployed    string
	}{
		"by default":          {nil, releasev1alpha1.RemediationRollback, "RolledBack", "UpgradeSuccessful"},
		"rollback-force=0":    {[]string{prefix + "rollback-force", "false"}, releasev1alpha1.RemediationRollback, "RolledBack", "UpgradeSuccessful"},
		"not by the strategy": {nil, releasev1alpha1.RemediationNone, "RetriesExhausted", "InstallSuccessful"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			kind := caches(t)
			kind.Policy.Remediation = &releasev1alpha1.Remediation{Retries: new(int32), Strategy: tc.strategy}
			bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
				w.create("default/a", size3, tc.annotations...)
				w.With(func() {
					w.Validate = func(object *unstructured.Unstructured) error {
						if size, _, _ := unstructured.NestedString(object.Object, "data", "size"); size == "5" {
							return forbidden("configmaps", "", "the size is refused")
						}
						return nil
					}
				})
				w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(5)} })
				w.Settle()
				expect.Equal(w.t, "data", "3", w.field("ConfigMap", "default/a", "data", "size"))
				w.has("conditions", w.conditions("default/a"), "ReleaseFailed True UpgradeError",
					"Irreconcilable True ReconcileError", "Remediated True "+tc.reason, "Deployed True "+tc.deployed)
				transition := meta.FindStatusCondition(w.typed("default/a"), "Deployed").LastTransitionTime
				w.TakeRequests()
				w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, "demo.example.com/requested-at", "later") })
				expect.Equal(w.t, "transition of Deployed", transition, meta.FindStatusCondition(w.typed("default/a"), "Deployed").LastTransitionTime)
			})
		})
	}
}

// TestHooksOfTheLibrary: a pre-reconcile hook holds the release until it succeeds. A
// post-reconcile hook sees the deployed release.
func TestHooksOfTheLibrary(t *testing.T) {
	var ready atomic.Bool
	after := []int64{}
	kind := caches(t)
	kind.PreHooks = []watches.PreHook{func(_ context.Context, object *unstructured.Unstructured, values map[string]any, _ klog.Logger) error {
		if !ready.Load() {
			return errors.New("the license is missing")
		}
		values["image"] = "from-" + object.GetName()
		return nil
	}}
	kind.PostHooks = []watches.PostHook{func(
		_ context.Context, _ *unstructured.Unstructured, release releasev1alpha1.DeployedRelease, _ map[string]any, _ klog.Logger,
	) error {
		after = append(after, release.Revision)
		return nil
	}}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		expect.Equal(w.t, "data while the hook fails", "", w.field("ConfigMap", "default/a", "data", "size"))
		w.has("conditions", w.conditions("default/a"), "Irreconcilable True ReconcileError")
		expect.Contains(w.t, "message", w.message("default/a", "Irreconcilable"), "the license is missing")
		ready.Store(true)
		w.Wait(time.Minute)
		expect.Equal(w.t, "data", "from-a", w.field("ConfigMap", "default/a", "data", "image"))
		expect.Equal(w.t, "revisions that the post-reconcile hook saw", []int64{1}, after)
	})
}

// TestCustomAnnotation changes the release by an annotation of the program.
func TestCustomAnnotation(t *testing.T) {
	kind := caches(t)
	kind.Annotations = []watches.Annotation{{Name: "example.com/history", Apply: func(value string, release *helm.Release) error {
		if value != "short" {
			return fmt.Errorf("%q is not short", value)
		}
		release.MaxHistory = 1
		return nil
	}}}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3, "example.com/history", "short")
		for size := int64(4); size < 8; size++ {
			w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": size} })
		}
		expect.Equal(w.t, "records", []string{"a.v4 superseded", "a.v5 deployed"}, w.HelmRecords())
		w.Recorder.Take()
		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, "example.com/history", "long") })
		expect.Equal(w.t, "events", []string{`a Warning InvalidAnnotation Reconcile Annotation example.com/history is ignored: "long" is not short`}, w.Recorder.Take())
		w.has("conditions", w.conditions("default/a"), "Ready True Healthy")
	})
}

// TestFormerFinalizer: the finalizer of helm-operator-plugins is replaced, and a deletion
// with only that finalizer is completed.
func TestFormerFinalizer(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.change("default/a", func(object *unstructured.Unstructured) {
			object.Object["spec"] = size3
			object.SetFinalizers([]string{"uninstall-helm-release", "other/finalizer"})
		})
		expect.Equal(w.t, "finalizers", []string{"other/finalizer", prefix + "uninstall-release"}, w.Object("Memcached", "default/a").GetFinalizers())
		w.Stop()
		w.Edit("Memcached", "default/a", "kubectl", func(object *unstructured.Unstructured) {
			object.SetFinalizers([]string{"uninstall-helm-release"})
		})
		w.Delete("Memcached", "default/a")
		w.start(caches(t))
		expect.Equal(w.t, "objects", []string{}, w.Names())
	})
}

// TestForeignFinalizer: the status says that the release is uninstalled while another
// finalizer keeps the custom resource.
func TestForeignFinalizer(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.change("default/a", func(object *unstructured.Unstructured) {
			object.Object["spec"] = size3
			object.SetFinalizers([]string{"other/finalizer"})
		})
		w.Delete("Memcached", "default/a")
		w.Settle()
		expect.Equal(w.t, "objects", []string{"Memcached default/a"}, w.Names())
		w.has("conditions", w.conditions("default/a"), "Deployed False UninstallSuccessful", "Irreconcilable False Reconciled")
	})
}

// TestUpdate: a kind that is removed stops and leaves its releases; a changed one restarts.
func TestUpdate(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", size3)
		expect.NoError(w.t, w.manager.Update())
		w.Settle()
		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(5)} })
		expect.Equal(w.t, "data without the kind", "3", w.field("ConfigMap", "default/a", "data", "size"))
		newer := caches(t)
		newer.Chart, newer.Revision = chartOf(t, "2.0.0", "configmap.yaml", configMap), "2"
		expect.NoError(w.t, w.manager.Update(newer))
		w.Settle()
		expect.Equal(w.t, "data with the kind", "5", w.field("ConfigMap", "default/a", "data", "size"))
		expect.Equal(w.t, "chart", "2.0.0", w.field("Memcached", "default/a", "status", "deployedRelease", "chartVersion"))
		if err := w.manager.Update(newer, newer); err == nil {
			t.Error("a kind may be watched twice")
		}
	})
}

// TestInvalidReleaseName: a custom resource whose release cannot be named says so. A deployed
// release keeps its name.
func TestInvalidReleaseName(t *testing.T) {
	kind := caches(t)
	kind.ReleaseName = func(object *unstructured.Unstructured) (string, error) {
		if tier := object.GetLabels()["tier"]; tier != "" {
			return object.GetName() + "-" + tier, nil
		}
		return "", errors.New("releaseName: the label tier is missing")
	}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		w.has("conditions", w.conditions("default/a"), "Irreconcilable True ErrorGettingValues", "Stalled True ValuesInvalid")
		expect.Equal(w.t, "message", "releaseName: the label tier is missing", w.message("default/a", "Ready"))
		w.change("default/a", func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{"tier": "gold"})
			object.Object["spec"] = map[string]any{"size": int64(4)}
		})
		expect.Equal(w.t, "records", []string{"a-gold.v1 deployed"}, w.HelmRecords())
		w.change("default/a", func(object *unstructured.Unstructured) { object.SetLabels(nil) })
		w.Delete("Memcached", "default/a")
		w.Settle()
		expect.Equal(w.t, "records", []string{}, w.HelmRecords())
	})
}

// TestReleaseName: a template may name the release, and a change of the template keeps
// existing releases.
func TestReleaseName(t *testing.T) {
	named := func(suffix string) watches.ReleaseKind {
		kind := caches(t)
		kind.Revision = suffix
		kind.ReleaseName = func(object *unstructured.Unstructured) (string, error) { return object.GetName() + suffix, nil }
		return kind
	}
	bubble(t, []watches.ReleaseKind{named("-one")}, func(w *world) {
		w.create("default/a", size3)
		expect.Equal(w.t, "records", []string{"a-one.v1 deployed"}, w.HelmRecords())
		expect.NoError(w.t, w.manager.Update(named("-two")))
		w.Settle()
		w.create("default/b", size3)
		expect.Equal(w.t, "records", []string{"a-one.v1 deployed", "b-two.v1 deployed"}, w.HelmRecords())
		w.Delete("Memcached", "default/a")
		w.Settle()
		expect.Equal(w.t, "records", []string{"b-two.v1 deployed"}, w.HelmRecords())
	})
}
