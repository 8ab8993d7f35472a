// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	appv1 "github.com/example/demoapp-controller/pkg/apis/app/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/appstack"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	"github.com/example/demoapp-controller/pkg/operator"
)

// appStacks registers the kind AppStack, which has children of the kind PostgreSQL.
func appStacks(options *Options) operator.Kind {
	return operator.Kind{
		Name: appstack.Name,
		Resources: []schema.GroupVersionResource{
			appv1.SchemeGroupVersion.WithResource("appstacks"), databasev1.SchemeGroupVersion.WithResource("postgresqls"),
			appsv1.SchemeGroupVersion.WithResource("deployments"), corev1.SchemeGroupVersion.WithResource("services"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
		Build: func(env *operator.Environment) error { return buildAppStacks(env, options) },
	}
}

func buildAppStacks(env *operator.Environment, options *Options) error {
	client, err := typedClient(env)
	if err != nil {
		return err
	}
	informers, err := informersOf(env, client, "AppStacks", func(factory informerFactory) cache.SharedIndexInformer {
		return factory.App().V1().AppStacks().Informer()
	})
	if err != nil {
		return err
	}
	children, err := child.Builtin(env, env.Clients.Kube, "Deployment", "Service")
	if err != nil {
		return err
	}
	databases, err := postgreSQLChildren(env, client)
	if err != nil {
		return err
	}
	set, err := explainedSet(env, appstack.Kind, appv1.LabelStack, append(children, databases)...)
	if err != nil {
		return err
	}
	loop, err := appstack.New(client.AppV1(), set, options.images, naming.Domain(options.ClusterDomain), kindDeps(env, options, informers))
	if err != nil {
		return err
	}
	env.AddSharded(appstack.Name, loop.Run, loop.Synced()...)
	return nil
}
