// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/memcachedbackup"
	"github.com/example/demoapp-controller/pkg/operator"
)

// memcachedBackups registers the kind MemcachedBackup.
func memcachedBackups(options *Options) operator.Kind {
	return operator.Kind{
		Name: memcachedbackup.Name,
		Resources: []schema.GroupVersionResource{
			cachev1.SchemeGroupVersion.WithResource("memcachedbackups"),
			appsv1.SchemeGroupVersion.WithResource("deployments"), corev1.SchemeGroupVersion.WithResource("pods"),
		},
		Build: func(env *operator.Environment) error { return buildMemcachedBackups(env, options) },
	}
}

func buildMemcachedBackups(env *operator.Environment, options *Options) error {
	client, err := typedClient(env)
	if err != nil {
		return err
	}
	informers, err := informersOf(env, client, "MemcachedBackups", func(factory informerFactory) cache.SharedIndexInformer {
		return factory.Cache().V1().MemcachedBackups().Informer()
	})
	if err != nil {
		return err
	}
	children, err := child.Builtin(env, env.Clients.Kube, "Deployment")
	if err != nil {
		return err
	}
	pods, err := child.NewPodHealth(env, env.Clients.Kube, cachev1.LabelMemcachedBackup)
	if err != nil {
		return err
	}
	loop, err := memcachedbackup.New(client.CacheV1(), child.NewSet(memcachedbackup.Kind, children...), pods, options.images, kindDeps(env, options, informers))
	if err != nil {
		return err
	}
	env.AddSharded(memcachedbackup.Name, loop.Run, loop.Synced()...)
	return nil
}
