// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import "github.com/example/demoapp-controller/pkg/operator"

// kinds lists every kind of the process. A new kind has a file of its own beside this one, and a line here.
func kinds(options *Options) []operator.Kind {
	return []operator.Kind{
		demoApps(options),
		demoAppClusters(options),
		websites(options),
	}
}
