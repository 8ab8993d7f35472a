// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/pkg/operator/releasekinds"
)

// kinds returns the kinds of the process that --controllers enables. To add a kind, add its file to
// this package and a line here.
func kinds(ctx context.Context, options *Options) ([]operator.Kind, error) {
	engine := &releasekinds.Engine{SharedDependencies: options.SharedDependencies}
	registered := []operator.Kind{
		demoApps(options, engine),
		demoAppClusters(options),
		websites(options),
		webApps(options),
		memcachedBackups(options),
		backups(options),
		postgreSQLs(options),
		appStacks(options),
		appConfigs(options),
		ecommercePlatforms(options),
	}
	watched, err := watchedKinds(ctx, options, engine)
	if err != nil {
		return nil, err
	}
	for i, kind := range registered {
		registered[i].Rules = rulesOf(kind.Name, options)
	}
	enabled, err := options.Select(append(registered, watched)...)
	if err != nil {
		return nil, usageError(err)
	}
	if options.Admission.BindAddress != webhookOff {
		// It has a flag of its own instead of a name in --controllers.
		enabled = append(enabled, webAppAdmission(ctx, options.Admission))
	}
	return enabled, nil
}
