// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"embed"
	"io/fs"
)

//go:embed all:demo-app
var embedded embed.FS

// DemoApp returns the demo-app chart as a read-only file system whose root is the chart's own
// folder: Chart.yaml is at the top.
func DemoApp() fs.FS {
	chart, err := fs.Sub(embedded, "demo-app")
	if err != nil {
		// fs.Sub only refuses a path that is not well formed, and this one is a constant.
		panic(err)
	}
	return chart
}
