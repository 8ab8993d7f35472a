// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package variants

import (
	"os"
	"testing"

	"github.com/example/demoapp-controller/test/cluster"
)

// shared is the control plane of all tests of this package.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{Audit: true}, func(c *cluster.Cluster) { shared = c }))
}
