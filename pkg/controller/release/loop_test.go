// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
	"github.com/example/demoapp-controller/test/releaseworld"
)

var shops = shopKind.GroupVersion().WithResource("shops")

// startShops starts a process that runs the example.
func startShops(w *releaseworld.World) {
	w.T.Helper()
	w.Serve(shops, shopKind.Kind, true)
	chart, err := chart.LoadFS(fstest.MapFS{
		"Chart.yaml": {Data: []byte("apiVersion: v2\nname: shop\nversion: 1.0.0\n")},
		"templates/configmap.yaml": {Data: []byte(
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {size: \"{{ .Values.size }}\"}\n")},
	}, ".")
	expect.NoError(w.T, err)
	w.Start(func() (releaseworld.Run, error) {
		informer := shopInformer(w.T, w.Client)
		client := func(namespace string) controller.Patcher[*Shop] {
			return shopClient{w.Client.Resource(shops).Namespace(namespace)}
		}
		loop, err := newLoop(client, w.Engine, chart, kind.Deps{
			Informers: map[string]cache.SharedIndexInformer{metav1.NamespaceAll: informer},
			Recorder:  w.Recorder, Clock: clock.RealClock{}, ResyncPeriod: 1000 * time.Hour,
		})
		if err != nil {
			return nil, err
		}
		return releaseworld.WithInformers(loop.Run, informer), nil
	})
}

// shopInformer returns an informer that watches the Shops of the server.
func shopInformer(t *testing.T, client dynamic.Interface) cache.SharedIndexInformer {
	t.Helper()
	informer := dynamicinformer.NewFilteredDynamicInformer(client, shops, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	expect.NoError(t, informer.SetTransform(func(object any) (any, error) {
		if whole, ok := object.(*unstructured.Unstructured); ok {
			return shopOf(whole)
		}
		return object, nil
	}))
	return informer
}

// edit changes a Shop as a user does.
func edit(w *releaseworld.World, change func(*unstructured.Unstructured)) {
	w.T.Helper()
	w.Edit("Shop", "default/a", "kubectl", change)
	w.Settle()
}

func sized(size int64) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": size} }
}

// ready returns status, reason and message of Ready.
func ready(w *releaseworld.World) string {
	w.T.Helper()
	shop, err := shopOf(w.Object("Shop", "default/a"))
	expect.NoError(w.T, err)
	condition := meta.FindStatusCondition(shop.Status.Conditions, "Ready")
	if condition == nil {
		return ""
	}
	return fmt.Sprintf("%s %s %s", condition.Status, condition.Reason, condition.Message)
}

// TestLoop: the example of a release kind installs, upgrades, corrects drift, holds an invalid
// change, and uninstalls.
func TestLoop(t *testing.T) {
	releaseworld.Bubble(t, func(w *releaseworld.World) {
		startShops(w)
		size := func() string {
			object := w.Object("ConfigMap", "default/a")
			if object == nil {
				return ""
			}
			text, _, _ := unstructured.NestedString(object.Object, "data", "size")
			return text
		}
		edit(w, sized(3))
		expect.Equal(w.T, "size", "3", size())
		expect.Equal(w.T, "Ready", "True Healthy Revision 1 is deployed and healthy", ready(w))

		w.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.Object["data"] = map[string]any{"size": "9"} })
		w.Settle()
		expect.Equal(w.T, "size after drift", "3", size())
		w.Remove("ConfigMap", "default/a")
		w.Settle()
		expect.Equal(w.T, "size after a deletion", "3", size())

		edit(w, sized(5))
		expect.Equal(w.T, "size after a change", "5", size())
		edit(w, sized(0))
		expect.Equal(w.T, "Ready", "False ValuesInvalid spec.size: must not be 0", ready(w))
		expect.Equal(w.T, "size while a change is held", "5", size())

		w.Delete("Shop", "default/a")
		w.Settle()
		if left := w.Names(); len(left) > 0 {
			w.T.Errorf("%v are left", left)
		}
		if diff := cmp.Diff([]string{}, w.HelmRecords()); diff != "" {
			w.T.Errorf("records (-want +got):\n%s", diff)
		}
	})
}

// TestLoopUninstallFails: the status says why the deletion waits, and the uninstall is repeated.
func TestLoopUninstallFails(t *testing.T) {
	releaseworld.Bubble(t, func(w *releaseworld.World) {
		startShops(w)
		edit(w, sized(3))
		w.With(func() {
			w.Fault = func(request fakeapi.Request) fakeapi.Fault {
				if request.Verb == "delete" && request.Key.Resource.Resource == "configmaps" {
					return fakeapi.FailBefore
				}
				return fakeapi.NoFault
			}
		})
		w.Delete("Shop", "default/a")
		w.Settle()
		if got := ready(w); !strings.HasPrefix(got, "False UninstallFailed Deletion waits: ") {
			w.T.Errorf("Ready is %q", got)
		}
		w.With(func() { w.Fault = nil })
		w.Wait(time.Hour)
		if left := w.Names(); len(left) > 0 {
			w.T.Errorf("%v are left", left)
		}
	})
}

// TestLoopNeedsFinalizer: without a finalizer, releases would stay.
func TestLoopNeedsFinalizer(t *testing.T) {
	_, err := release.NewLoop(kind.Definition[*Shop, ShopStatus]{Name: "shop"}, kind.Deps{}, nil, binding{}, release.Options[*Shop]{})
	if err == nil || errors.Is(err, controller.ErrNotSynced) {
		t.Errorf("error is %v", err)
	}
}
