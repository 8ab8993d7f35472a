// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/example/demoapp-controller/test/cluster"
)

// options say what is measured.
type options struct {
	root       string
	sizes      []int
	workers    int
	driftCount int
	idle       time.Duration
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	o := options{}
	sizes := flag.String("sizes", "200,1000,5000", "numbers of DemoApps to measure, separated by commas")
	flag.StringVar(&o.root, "root", ".", "root of the repository")
	flag.IntVar(&o.workers, "workers", 10, "workers of the operator and of the floor")
	flag.IntVar(&o.driftCount, "drifts", 200, "objects to change for the drift figures")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long to watch the idle operator")
	out := flag.String("out", "docs", "folder for benchmarks.md and its plots, below the root")
	flag.Parse()
	for _, field := range strings.Split(*sizes, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || size < 1 {
			return fmt.Errorf("-sizes: %q is not a number of DemoApps", field)
		}
		o.sizes = append(o.sizes, size)
	}
	var err error
	if o.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	binary, err := buildOperator(ctx, o.root)
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(binary))
	var results []result
	for _, size := range o.sizes {
		r, err := measure(ctx, o, binary, size)
		if err != nil {
			return fmt.Errorf("%d DemoApps: %w", size, err)
		}
		results = append(results, r)
		// Each size takes long: what is measured is not to be lost with the next one.
		if err := writeReport(filepath.Join(o.root, *out), machine(), o, results); err != nil {
			return err
		}
	}
	return nil
}

// machine describes where the figures come from.
func machine() string {
	model := "unknown processor"
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores (%s), %s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.Version())
}

// measure runs all phases for one size on a control plane of its own.
func measure(ctx context.Context, o options, binary string, size int) (result, error) {
	log.Printf("%d DemoApps: starting a control plane", size)
	c, err := cluster.Start(ctx, cluster.Options{Nodes: 1})
	if err != nil {
		return result{}, err
	}
	defer func() {
		if err := c.Stop(); err != nil {
			log.Print(err)
		}
	}()
	b, err := newBench(ctx, c, o, binary, size)
	if err != nil {
		return result{}, err
	}
	defer b.close()
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"one release, to learn what a release looks like", b.sample},
		{"floor: install", b.floorInstall},
		{"floor: upgrade", b.floorUpgrade},
		{"floor: clear", b.clearFloor},
		{"install", b.install},
		{"idle", b.idle},
		{"upgrade", b.upgrade},
		{"drift", b.drift},
		{"drift while installing", b.driftUnderLoad},
		{"restart", b.restart},
		{"delete", b.delete},
	} {
		started := time.Now()
		if err := phase.run(ctx); err != nil {
			return result{}, fmt.Errorf("%s: %w\n%s", phase.name, err, b.operatorLog())
		}
		log.Printf("%d DemoApps: %s took %s", size, phase.name, time.Since(started).Round(time.Millisecond))
	}
	return b.result, nil
}
