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

// defaults are flags that have these values unless they are given. Tests mostly wait for the API server, so that more of
// them can run at a time than there are processors.
var defaults = map[string]string{
	"test.parallel":    "12",
	"rapid.checks":     "3",
	"rapid.steps":      "25",
	"rapid.shrinktime": "3m",
	"rapid.nofailfile": "true",
}

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
	for name, value := range defaults {
		if err := setDefault(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	// A global of Helm's, which the helm command sets to its own name.
	kube.ManagedFieldsManager = helm.FieldManager
	// The stock client logs there what it returns as well.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	klog.SetSlogLogger(slog.Default())
	debug.SetGCPercent(400)                          // Memory for time.
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // About kinds that charts use, although they are deprecated.
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
	if shared, err = cluster.Start(ctx, cluster.Options{Messages: io.Discard, KeepObjects: true}); err != nil {
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
