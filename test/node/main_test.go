// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/repository"
)

// shared has the operator of artifacts/install.yaml, with all kinds.
var shared *cluster.Cluster

// parallel is the number of parallel tests. They mostly wait, so it can exceed the number of processors.
const parallel = "24"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	root, err := repository.Root()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	image := filepath.Join(root, "bin", "image.tar")
	if _, err := os.Stat(image); err != nil {
		fmt.Fprintln(os.Stderr, "run make test-node, which makes the image of the operator:", err)
		os.Exit(1)
	}
	main := &cluster.MainTest{}
	shared = main.Start(cluster.Options{RealNode: true, Images: []string{image}})
	installOperator(main.Context(), main)
	os.Exit(main.End(m.Run()))
}

// installOperator installs the operator and all kinds, and waits until it is available.
func installOperator(ctx context.Context, t testing.TB) {
	if _, err := kubectl(ctx, "apply", "--server-side", "--filename=artifacts/install.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := shared.InstallKinds(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := kubectl(ctx, "rollout", "status", "--namespace=demoapp-system", "deployment/demoapp-controller", "--timeout=2m"); err != nil {
		t.Fatal(err)
	}
}
