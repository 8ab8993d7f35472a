// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	configv1 "github.com/example/demoapp-controller/pkg/apis/config/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/appconfig"
	"github.com/example/demoapp-controller/pkg/controller/kinds/appconfig/reload"
	"github.com/example/demoapp-controller/pkg/operator"
)

// appConfigs registers the kind AppConfig.
func appConfigs(options *Options) operator.Kind {
	return operator.Kind{
		Name: appconfig.Name,
		Resources: []schema.GroupVersionResource{
			configv1.SchemeGroupVersion.WithResource("appconfigs"), corev1.SchemeGroupVersion.WithResource("configmaps"),
			appsv1.SchemeGroupVersion.WithResource("deployments"), appsv1.SchemeGroupVersion.WithResource("statefulsets"),
			appsv1.SchemeGroupVersion.WithResource("daemonsets"),
		},
		Build: func(env *operator.Environment) error { return buildAppConfigs(env, options) },
	}
}

func buildAppConfigs(env *operator.Environment, options *Options) error {
	client, err := typedClient(env)
	if err != nil {
		return err
	}
	informers, err := informersOf(env, client, "AppConfigs", func(factory informerFactory) cache.SharedIndexInformer {
		return factory.Config().V1().AppConfigs().Informer()
	})
	if err != nil {
		return err
	}
	children, err := child.Builtin(env, env.Clients.Kube, "ConfigMap")
	if err != nil {
		return err
	}
	workloads, err := reload.NewWorkloads(env, env.Clients.Kube, appconfig.Reloads)
	if err != nil {
		return err
	}
	// Other content rolls workloads, so the content of an earlier operator stays until the AppConfig changes.
	set := child.NewSet(appconfig.Kind, children[0].KeepUntilChange("other content rolls the workloads that use it", "data"))
	loop, err := appconfig.New(client.ConfigV1(), set, workloads, kindDeps(env, options, informers))
	if err != nil {
		return err
	}
	env.AddSharded(appconfig.Name, loop.Run, loop.Synced()...)
	return nil
}
