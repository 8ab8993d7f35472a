// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// Main is the main function of an operator with the standard flags. It parses the command
// line, sets up the logs, runs the kinds that build returns until SIGINT or SIGTERM, and
// ends the process: with exit code 0 after an orderly stop, and otherwise with 1. A second
// signal ends the process at once. A program with flags of its own calls [Run] instead.
func Main(options *Options, build func(ctx context.Context) ([]Kind, error)) {
	stop, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(stop, restore)
	options.AddFlags(pflag.CommandLine)
	pflag.Parse()
	options.SetupLogging(os.Stderr)
	kinds, err := build(stop)
	if err == nil {
		err = Run(stop, *options, kinds...)
	}
	if err != nil {
		klog.ErrorS(err, "The operator ends")
		os.Exit(1)
	}
}
