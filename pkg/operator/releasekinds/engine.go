// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasekinds

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/metacache"
	"github.com/example/demoapp-controller/pkg/operator"
)

// Engine is the Helm engine of a process. All kinds with releases share it, because it
// watches release records and the objects of releases. The zero value is ready to use.
type Engine struct {
	// SharedDependencies are the namespaces whose objects the resources of other namespaces may wait for.
	SharedDependencies []string

	mu           sync.Mutex
	engine       *helm.Engine
	sources      *values.Sources
	dependencies *release.Dependencies
	starts       sync.Once
	// cachesAll is true if the engine caches the records and objects of all shards. The releases of
	// the kinds of this package may have objects in other namespaces than the custom resource.
	cachesAll bool
}

// cacheAll makes the engine cache all shards. It is called before the first Get.
func (e *Engine) cacheAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cachesAll = true
}

// Get returns the engine. The first call builds the engine from the environment and
// registers its metrics.
func (e *Engine) Get(env *operator.Environment) (*helm.Engine, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.engine != nil {
		return e.engine, nil
	}
	shards := env.Selection()
	if e.cachesAll {
		shards = nil
	}
	engine, err := helm.New(helm.Config{
		Shards:      shards,
		RESTConfig:  env.Clients.Config,
		HTTPClient:  env.Clients.HTTP,
		Namespaces:  env.Namespaces,
		Logger:      slog.Default(),
		LoggerFor:   operator.LibraryLogger,
		OnOperation: newMetrics(env.Registry).observe,
		OnWatchError: func(watched string, err error) {
			if watched == helm.WatchedRecords {
				env.Metrics.WatchFailures(watched)(err)
				return
			}
			env.Metrics.OptionalWatchFailures(watched)(err)
		},
	})
	if err != nil {
		return nil, err
	}
	e.engine = engine
	return engine, nil
}

// Sources returns the reader of the Secrets and ConfigMaps that objects name. The first call builds it
// from the environment.
func (e *Engine) Sources(env *operator.Environment) (*values.Sources, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sources != nil {
		return e.sources, nil
	}
	core := env.Clients.Kube.CoreV1()
	config := values.Config{
		Secrets: core, ConfigMaps: core, SecretWatches: map[string]values.Watch{}, ConfigMapWatches: map[string]values.Watch{},
	}
	watch := func(watches map[string]values.Watch, name, resource string, selected func(*metav1.ListOptions)) error {
		for _, namespace := range env.WatchedNamespaces() {
			demand, err := env.OnDemand(name, namespace, func() (cache.SharedIndexInformer, error) {
				return metacache.NewInformer(env.Selection(), env.Clients.Metadata, corev1.SchemeGroupVersion.WithResource(resource),
					namespace, selected, metacache.Identity)
			})
			if err != nil {
				return err
			}
			watches[namespace] = demand
		}
		return nil
	}
	err := errors.Join(
		watch(config.SecretWatches, "Secrets", "secrets", metacache.ExceptReleaseRecords),
		watch(config.ConfigMapWatches, "ConfigMaps", "configmaps", nil))
	if err != nil {
		return nil, err
	}
	e.sources, err = values.NewSources(config)
	return e.sources, err
}

// Dependencies returns what knows the objects that others wait for. The first call builds it from the
// environment. Call Get before.
func (e *Engine) Dependencies(env *operator.Environment) *release.Dependencies {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dependencies == nil {
		e.dependencies = release.NewDependencies(release.DependenciesConfig{
			Client: env.Clients.Dynamic, Kinds: e.engine.Kinds(), Clock: clock.RealClock{}, Namespaces: env.Namespaces,
			Shared:       e.SharedDependencies,
			OnWatchError: func(resource string, err error) { env.Metrics.OptionalWatchFailures(resource)(err) },
		})
		env.AddService("dependencies of releases", e.dependencies.Run)
	}
	return e.dependencies
}

// Start adds the engine as a service of the kind that is being built, unless an earlier
// kind has. Call Start after the kind has subscribed to the engine.
func (e *Engine) Start(env *operator.Environment) {
	e.starts.Do(func() {
		env.AddService("helm engine", func(ctx context.Context) error {
			e.engine.Run(ctx)
			return nil
		})
	})
}
