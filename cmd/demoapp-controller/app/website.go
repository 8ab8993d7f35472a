// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	"github.com/example/demoapp-controller/pkg/controller/kinds/website"
	"github.com/example/demoapp-controller/pkg/operator"
)

// websites registers the kind Website.
func websites(options *Options) operator.Kind {
	return operator.Kind{
		Name: website.Name,
		Resources: []schema.GroupVersionResource{
			webappv1.SchemeGroupVersion.WithResource("websites"), corev1.SchemeGroupVersion.WithResource("configmaps"),
			appsv1.SchemeGroupVersion.WithResource("deployments"), corev1.SchemeGroupVersion.WithResource("services"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
		Build: func(env *operator.Environment) error { return buildWebsites(env, options) },
	}
}

func buildWebsites(env *operator.Environment, options *Options) error {
	client, err := typedClient(env)
	if err != nil {
		return err
	}
	informers, err := informersOf(env, client, "Websites", func(factory informerFactory) cache.SharedIndexInformer {
		return factory.Webapp().V1().Websites().Informer()
	})
	if err != nil {
		return err
	}
	children, err := child.Builtin(env, env.Clients.Kube, "ConfigMap", "Deployment", "Service")
	if err != nil {
		return err
	}
	set, err := explainedSet(env, website.Kind, webappv1.LabelWebsite, children...)
	if err != nil {
		return err
	}
	loop, err := website.New(client.WebappV1(), set, options.images, naming.Domain(options.ClusterDomain), kindDeps(env, options, informers))
	if err != nil {
		return err
	}
	env.AddSharded(website.Name, loop.Run, loop.Synced()...)
	return nil
}
