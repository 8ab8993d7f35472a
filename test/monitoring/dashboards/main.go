// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command dashboards draws the dashboards of artifacts/monitoring with real data: what "make
// dashboards" runs. A Prometheus in this process scrapes the operator while it plays docs/tour.md.
// The pictures are docs/images/dashboard-operator.png and docs/images/dashboard-resources.png.
//
// The command fails if a panel has no data, except for panels that are rightly empty in a healthy
// tour.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/example/demoapp-controller/test/monitoring"
	"github.com/example/demoapp-controller/test/monitoring/picture"
)

const (
	// scrapeInterval is short, because the tour takes minutes.
	scrapeInterval = time.Second
	// rateInterval is the shortest range of a rate in the pictures.
	rateInterval = 10 * time.Second
)

func main() {
	root := flag.String("root", "../..", "`folder` of the repository")
	flag.Parse()
	if err := run(context.Background(), *root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run plays the tour and draws the dashboards. A signal ends it.
func run(ctx context.Context, root string) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "dashboards-")
	if err != nil {
		return fmt.Errorf("create a folder for Prometheus: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	address, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	server, err := monitoring.StartServer(ctx, root, dir, scrapeInterval, address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if err := playTour(ctx, root, address); err != nil {
		return err
	}
	from, to, err := server.Seen(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range monitoring.Dashboards {
		errs = append(errs, drawDashboard(ctx, root, name, server, picture.Range{From: from, To: to}))
	}
	return errors.Join(errs...)
}

// freeAddress returns an address on which no process listens at the moment.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// playTour plays the tour with an operator that serves its metrics on address.
func playTour(ctx context.Context, root, address string) error {
	tour := exec.CommandContext(ctx, "go", "run", "./hack/demo", "--metrics-bind-address="+address)
	tour.Dir, tour.Stdout, tour.Stderr = root, os.Stdout, os.Stderr
	// The tour removes its objects after the signal.
	tour.Cancel = func() error { return tour.Process.Signal(os.Interrupt) }
	if err := tour.Run(); err != nil {
		return fmt.Errorf("play the tour: %w", err)
	}
	return nil
}

// drawDashboard draws one dashboard, and fails if a panel lacks data.
func drawDashboard(ctx context.Context, root, name string, server *monitoring.Server, shown picture.Range) (err error) {
	dashboard, err := monitoring.ReadDashboard(root, name)
	if err != nil {
		return err
	}
	panels, err := server.Read(ctx, dashboard, shown.From, shown.To, rateInterval)
	if err != nil {
		return fmt.Errorf("read the dashboard %s: %w", name, err)
	}
	path := filepath.Join(root, "docs", "images", "dashboard-"+name+".png")
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create the picture: %w", err)
	}
	err = errors.Join(picture.Write(file, dashboard, panels, shown), file.Close())
	if empty := monitoring.Empty(panels); len(empty) > 0 {
		err = errors.Join(err, fmt.Errorf("the dashboard %s has panels without data: %s", name, strings.Join(empty, ", ")))
	}
	return err
}
