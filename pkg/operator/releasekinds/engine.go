// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasekinds

import (
	"context"
	"log/slog"
	"sync"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/operator"
)

// Engine is the Helm engine of a process. All kinds with releases share it, because it
// watches release records and the objects of releases. The zero value is ready to use.
type Engine struct {
	mu     sync.Mutex
	engine *helm.Engine
	starts sync.Once
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
