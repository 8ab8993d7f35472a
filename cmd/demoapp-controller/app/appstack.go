// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	appv1 "github.com/example/demoapp-controller/pkg/apis/app/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/appstack"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned/scheme"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/operator"
)

// appStacks registers the kind AppStack, which has children of the kind PostgreSQL.
func appStacks(options *Options) operator.Kind {
	return operator.Kind{
		Name: appstack.Name,
		Resources: []schema.GroupVersionResource{
			appv1.SchemeGroupVersion.WithResource("appstacks"), databasev1.SchemeGroupVersion.WithResource("postgresqls"),
			appsv1.SchemeGroupVersion.WithResource("deployments"), corev1.SchemeGroupVersion.WithResource("services"),
		},
		Build: func(env *operator.Environment) error { return buildAppStacks(env, options) },
	}
}

func buildAppStacks(env *operator.Environment, options *Options) error {
	client, err := demoClient(env)
	if err != nil {
		return err
	}
	informers, err := env.Informers("AppStacks", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
		return factory.App().V1().AppStacks().Informer(), nil
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
	loop, err := appstack.New(client.AppV1(), child.NewSet(appstack.Kind, append(children, databases)...), kind.Deps{
		Informers: informers, Recorder: env.Recorder(scheme.Scheme), Metrics: env.Metrics, Clock: clock.RealClock{},
		ResyncPeriod: options.ResyncPeriod, Workers: options.Workers,
	})
	if err != nil {
		return err
	}
	env.AddController(appstack.Name, loop.Run, loop.Synced()...)
	return nil
}

// postgreSQLInformers returns the informers of PostgreSQLs. The kind PostgreSQL and the kinds with children of this kind
// share the informers.
func postgreSQLInformers(env *operator.Environment, client versioned.Interface) (map[string]cache.SharedIndexInformer, error) {
	return env.Informers("PostgreSQLs", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
		return factory.Database().V1().PostgreSQLs().Informer(), nil
	})
}

// postgreSQLChildren returns the kind PostgreSQL as a kind of children.
func postgreSQLChildren(env *operator.Environment, client versioned.Interface) (child.Kind, error) {
	informers, err := postgreSQLInformers(env, client)
	if err != nil {
		return child.Kind{}, err
	}
	return child.WatchedBy(informers, databasev1.SchemeGroupVersion.WithKind("PostgreSQL"), client.DatabaseV1().PostgreSQLs)
}
