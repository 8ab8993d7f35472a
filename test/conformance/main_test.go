// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package conformance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"

	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/cluster"
)

// parallel is how many tests run at the same time unless -parallel says otherwise. They mostly wait for the API server.
const parallel = "6"

// releaseName is the name of all releases: each has a namespace of its own.
const releaseName = "web"

var (
	// shared is the control plane of all tests.
	shared *cluster.Cluster
	// workDir holds what is built for the tests.
	workDir string
)

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", parallel); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	// A global of Helm's, which the helm command sets to its own name.
	kube.ManagedFieldsManager = helm.FieldManager
	// The stock client logs there what it returns as well.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	klog.SetSlogLogger(slog.Default())
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // About kinds that charts use, although they are deprecated.
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	if workDir, err = os.MkdirTemp("", "conformance-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(workDir)
	if shared, err = cluster.Start(ctx, cluster.Options{Messages: io.Discard}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var running sync.WaitGroup
	running.Go(func() { endPods(ctx) })
	defer func() {
		cancel()
		running.Wait()
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}()
	return m.Run()
}
