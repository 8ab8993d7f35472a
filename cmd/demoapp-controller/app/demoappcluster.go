// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	demov1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/demoappcluster"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned/scheme"
	"github.com/example/demoapp-controller/pkg/metacache"
	"github.com/example/demoapp-controller/pkg/operator"
)

var nodeResource = corev1.SchemeGroupVersion.WithResource("nodes")

// demoAppClusters registers the kind DemoAppCluster, whose children are DemoApps.
func demoAppClusters(options *Options) operator.Kind {
	return operator.Kind{
		Name:      demoappcluster.Name,
		Resources: []schema.GroupVersionResource{demov1alpha1.SchemeGroupVersion.WithResource("demoappclusters"), demoAppResource},
		// With all namespaces, nodes are watched as soon as there is a DemoAppCluster.
		ClusterResources: []schema.GroupVersionResource{nodeResource},
		Build:            func(env *operator.Environment) error { return buildDemoAppClusters(env, options) },
	}
}

func buildDemoAppClusters(env *operator.Environment, options *Options) error {
	client, err := typedClient(env)
	if err != nil {
		return err
	}
	apps, err := demoAppInformers(env, client)
	if err != nil {
		return err
	}
	clusters, err := informersOf(env, client, "DemoAppClusters", func(factory informerFactory) cache.SharedIndexInformer {
		return factory.Demo().V1alpha1().DemoAppClusters().Informer()
	})
	if err != nil {
		return err
	}
	nodes, err := env.OnDemand("Nodes", metav1.NamespaceAll, func() (cache.SharedIndexInformer, error) {
		return metacache.NewInformer(nil, env.Clients.Metadata, nodeResource, metav1.NamespaceAll, nil, demoappcluster.KeepNode)
	})
	if err != nil {
		return err
	}
	controller, err := demoappcluster.New(demoappcluster.Deps{
		Client: client.DemoV1alpha1(), ClusterInformers: clusters, AppInformers: apps, Nodes: nodes, LiveNode: liveNode(env.Clients.Metadata),
		Recorder: env.Recorder(scheme.Scheme), Metrics: env.Metrics, Clock: clock.RealClock{},
		ResyncPeriod: options.ResyncPeriod, Namespaces: env.NamespaceMetadata, Refuse: options.refuse, Shards: env.Shards,
	})
	if err != nil {
		return err
	}
	env.AddSharded(demoappcluster.Name, controller.Run, controller.Synced()...)
	return nil
}

// liveNode returns a function that reads the metadata of a Node. It lists, because the operator may
// list and watch Nodes, but not get them.
func liveNode(client metadata.Interface) func(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	return func(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
		list, err := client.Resource(nodeResource).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
		})
		if err != nil || len(list.Items) == 0 {
			return nil, err
		}
		return &list.Items[0], nil
	}
}
