// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/memcachedbackup"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned/scheme"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/pkg/operator"
)

// memcachedBackups registers the Go kind MemcachedBackup.
func memcachedBackups() operator.Kind {
	return operator.Kind{
		Name: memcachedbackup.Name,
		Resources: []schema.GroupVersionResource{
			cachev1.SchemeGroupVersion.WithResource("memcachedbackups"),
			appsv1.SchemeGroupVersion.WithResource("deployments"), corev1.SchemeGroupVersion.WithResource("pods"),
		},
		Build: buildMemcachedBackups,
	}
}

func buildMemcachedBackups(env *operator.Environment) error {
	client, err := versioned.NewForConfigAndClient(env.Clients.Config, env.Clients.HTTP)
	if err != nil {
		return err
	}
	informers, err := env.Informers("MemcachedBackups", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
		return factory.Cache().V1().MemcachedBackups().Informer(), nil
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
	loop, err := memcachedbackup.New(client.CacheV1(), child.NewSet(memcachedbackup.Kind, children...), pods, images.Table{}, kind.Deps{
		Informers: informers, Recorder: env.Recorder(scheme.Scheme), Metrics: env.Metrics, Clock: clock.RealClock{},
		ResyncPeriod: 10 * time.Minute,
	})
	if err != nil {
		return err
	}
	env.AddController(memcachedbackup.Name, loop.Run, loop.Synced()...)
	return nil
}
