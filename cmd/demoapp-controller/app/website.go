// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/website"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned/scheme"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/operator"
)

// websites registers the kind Website.
func websites(options *Options) operator.Kind {
	return operator.Kind{
		Name: website.Name,
		Resources: []schema.GroupVersionResource{
			webappv1.SchemeGroupVersion.WithResource("websites"), corev1.SchemeGroupVersion.WithResource("configmaps"),
			appsv1.SchemeGroupVersion.WithResource("deployments"), corev1.SchemeGroupVersion.WithResource("services"),
		},
		Build: func(env *operator.Environment) error { return buildWebsites(env, options) },
	}
}

func buildWebsites(env *operator.Environment, options *Options) error {
	client, err := demoClient(env)
	if err != nil {
		return err
	}
	informers, err := env.Informers("Websites", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
		return factory.Webapp().V1().Websites().Informer(), nil
	})
	if err != nil {
		return err
	}
	children, err := child.Builtin(env, env.Clients.Kube, "ConfigMap", "Deployment", "Service")
	if err != nil {
		return err
	}
	loop, err := website.New(client.WebappV1(), child.NewSet(website.Kind, children...), kind.Deps{
		Informers: informers, Recorder: env.Recorder(scheme.Scheme), Metrics: env.Metrics, Clock: clock.RealClock{},
		ResyncPeriod: options.ResyncPeriod, Workers: options.Workers,
	})
	if err != nil {
		return err
	}
	env.AddController(website.Name, loop.Run, loop.Synced()...)
	return nil
}
