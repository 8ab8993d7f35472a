// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// An operator with a release kind in Go: a Cache is a Helm release, waits for other objects, and reads its
// password from a Secret.
package main

import (
	"context"
	"embed"

	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/pkg/operator/releasekinds"
)

//go:embed all:charts/cache
var charts embed.FS

func main() {
	operator.Main(operator.NewOptions("cache-operator", "", "cache-system"), func(context.Context) ([]operator.Kind, error) {
		registered, err := caches()
		return []operator.Kind{registered}, err
	})
}

// caches registers the kind Cache.
func caches() (operator.Kind, error) {
	chart, err := chart.LoadFS(charts, "charts/cache")
	return releasekinds.Typed(&releasekinds.Engine{}, releasekinds.Options{}, "caches", kind.Definition[*Cache, CacheStatus]{
		Name: "cache", GroupVersionKind: cacheKind, Finalizer: "cache.example.com/release",
		Status: func(c *Cache) *CacheStatus { return &c.Status },
	}, binding{chart}, options(chart)), err
}
