// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasekinds_test

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/pkg/operator/releasekinds"
)

// An operator that runs the kinds of a file. The example is only compiled, because it needs
// a cluster.
func ExampleFile() {
	operator.Main(operator.NewOptions("caches", "v1.0.0", "caches-system"), func(ctx context.Context) ([]operator.Kind, error) {
		kinds, err := releasekinds.File(ctx, &releasekinds.Engine{}, releasekinds.FileOptions{Path: "watches.yaml"})
		return []operator.Kind{kinds}, err
	})
}

// An operator with one kind. The values of a Cache come from the ConfigMap of the same name,
// and follow it. The example is only compiled, because it needs a cluster.
func ExampleFunc() {
	operator.Main(operator.NewOptions("caches", "v1.0.0", "caches-system"), func(context.Context) ([]operator.Kind, error) {
		return []operator.Kind{releasekinds.Func(&releasekinds.Engine{}, releasekinds.Options{}, caches)}, nil
	})
}

// cacheLabel is the label of the ConfigMaps of Caches.
const cacheLabel = "example.com/cache"

func caches(env *operator.Environment) ([]watches.ReleaseKind, error) {
	chart, err := chart.LoadFS(os.DirFS("."), "charts/cache")
	if err != nil {
		return nil, err
	}
	informers, err := env.Informers("ConfigMaps of Caches", func(namespace string) (cache.SharedIndexInformer, error) {
		return corev1informers.NewFilteredConfigMapInformer(env.Clients.Kube, namespace, 0, cache.Indexers{},
			func(options *metav1.ListOptions) { options.LabelSelector = cacheLabel }), nil
	})
	if err != nil {
		return nil, err
	}
	configs := controller.Scoped[*corev1.ConfigMap]{}
	kind := watches.ReleaseKind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Cache"},
		Chart:            chart,
		Translator: func(_ context.Context, object *unstructured.Unstructured) (map[string]any, error) {
			config, ok := configs.Get(cache.MetaObjectToName(object))
			if !ok {
				return nil, fmt.Errorf("ConfigMap %s with label %s: does not exist, create it", object.GetName(), cacheLabel)
			}
			return map[string]any{"size": config.Data["size"]}, nil
		},
	}
	for namespace, informer := range informers {
		configs[namespace] = informer.GetIndexer()
		kind.Watches = append(kind.Watches, watches.Watch{Name: "ConfigMaps", Informer: informer, Keys: func(config metav1.Object) []cache.ObjectName {
			return []cache.ObjectName{cache.MetaObjectToName(config)}
		}})
	}
	return []watches.ReleaseKind{kind}, nil
}
