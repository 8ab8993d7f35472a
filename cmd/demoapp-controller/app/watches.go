// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned/scheme"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/pkg/operator/releasekinds"
)

// watchedKinds registers the kinds of watches.yaml. --controllers has one name for all of them.
func watchedKinds(ctx context.Context, options *Options, engine *releasekinds.Engine) (operator.Kind, error) {
	if options.WatchesFile == "" || !options.Enabled(releasekinds.FileKind) {
		return operator.Kind{Name: releasekinds.FileKind}, nil
	}
	return releasekinds.File(ctx, engine, releasekinds.FileOptions{
		Options: releasekinds.Options{
			ResyncPeriod: options.ResyncPeriod, Workers: options.Workers, Refuse: options.refuse, Rollout: options.rolloutLimits(),
		},
		Path:           options.WatchesFile,
		Charts:         chart.Source{CacheDir: options.ChartCacheDir, RegistryConfig: options.RegistryConfig},
		StatusManifest: options.StatusManifest,
		Reserved:       scheme.Scheme.Recognizes,
	})
}
