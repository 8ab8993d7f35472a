// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned/scheme"
	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/pkg/plugin"
)

// gcPercent is the percentage for the garbage collector. A command reads objects and ends, so
// collecting at the usual 100 percent would be a third of the time of a command about 1,000
// objects.
const gcPercent = 400

func main() {
	debug.SetGCPercent(gcPercent)
	klog.SetLogger(logr.Discard()) // client-go logs errors that it returns, too.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal cancels the requests. A second one ends the process immediately.
	context.AfterFunc(ctx, stop)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	os.Exit(plugin.Execute(ctx, plugin.Options{Kinds: kinds(), Intended: intended, WatchedKinds: watchedKinds, Scheme: scheme.Scheme, Version: operator.BuildVersion()}, os.Args[1:], streams))
}
