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
	// The first signal asks for an orderly stop. It also restores what signals do by default, so that a second one
	// ends the process at once.
	context.AfterFunc(stop, restore)
	os.Exit(app.Execute(stop, os.Args[1:], os.Stdout, os.Stderr))
}
