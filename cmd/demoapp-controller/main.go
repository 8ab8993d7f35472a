// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/example/demoapp-controller/cmd/demoapp-controller/app"
)

func main() {
	stop, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal starts a graceful shutdown and restores the default signal handling. A
	// second signal therefore ends the process immediately.
	context.AfterFunc(stop, restore)
	os.Exit(app.Execute(stop, os.Args[1:], os.Stdout, os.Stderr))
}
