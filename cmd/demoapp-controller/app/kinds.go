// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import "github.com/example/demoapp-controller/pkg/operator"

// kinds returns all kinds of the process. To add a kind, add its file to this package and a line here.
func kinds(options *Options) []operator.Kind {
	return []operator.Kind{
		demoApps(options),
		demoAppClusters(options),
		websites(options),
		memcachedBackups(options),
	}
}
