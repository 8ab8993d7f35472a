// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// An operator with a kind that drives a chart, Memcached, and a plain Go kind, MemcachedBackup.
package main

import (
	"context"
	"embed"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/pkg/operator/releasekinds"
)

//go:embed all:charts/memcached
var charts embed.FS

func main() {
	options := operator.NewOptions("hybrid-operator", "", "hybrid-system")
	operator.Main(options, func(context.Context) ([]operator.Kind, error) {
		chart, err := chart.LoadFS(charts, "charts/memcached")
		memcached := watches.ReleaseKind{
			GroupVersionKind: schema.GroupVersionKind{Group: "cache.my.domain", Version: "v1", Kind: "Memcached"},
			Chart:            chart,
			Translator:       translate,
			PreHooks:         []watches.PreHook{checkReplicas},
			PostHooks:        []watches.PostHook{logRevision},
			Annotations:      []watches.Annotation{{Name: "cache.my.domain/keep-revisions", Apply: keepRevisions}},
		}
		return []operator.Kind{releasekinds.Kinds(&releasekinds.Engine{}, releasekinds.Options{}, memcached), memcachedBackups()}, err
	})
}
