// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"testing"

	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/cluster"
)

// defaults are the values of flags that are not given. Tests mostly wait for the API server, so
// more of them can run in parallel than there are processors.
var defaults = map[string]string{
	"test.parallel":    "12",
	"rapid.checks":     "3",
	"rapid.steps":      "25",
	"rapid.shrinktime": "3m",
	"rapid.nofailfile": "true",
}

// releaseName is the name of all releases. Each has a namespace of its own.
const releaseName = "web"

var (
	// shared is the control plane of all tests.
	shared *cluster.Cluster
	// workDir has the binaries that tests build.
	workDir string
)

func TestMain(m *testing.M) {
	flag.Parse()
	for name, value := range defaults {
		if err := setDefault(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	// The helm command sets this global of Helm to its own name.
	kube.ManagedFieldsManager = helm.FieldManager
	// The stock client logs the errors that it returns.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	klog.SetSlogLogger(slog.Default())
	debug.SetGCPercent(400)                          // Less garbage collection, for more memory.
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // Charts use deprecated kinds.
	os.Exit(run(m))
}

// setDefault sets a flag, unless it is given.
func setDefault(name, value string) error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return nil
	}
	return flag.Set(name, value)
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
