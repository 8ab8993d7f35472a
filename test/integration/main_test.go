// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// parallel is how many tests run at the same time: most of the time they wait, so more than there are processors.
const parallel = "8"

// All tests share a control plane, and an operator on it that watches all namespaces.
var (
	shared   *cluster.Cluster
	operator *cluster.Operator
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := preferParallel(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cluster.Main(m, cluster.Options{Audit: true}, func(c *cluster.Cluster) { shared = c }))
}
