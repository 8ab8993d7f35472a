// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// Main is the main function of an operator with the standard flags. It parses the command
// line, sets up the logs, and runs the kinds that build returns and --controllers enables,
// until SIGINT or SIGTERM. It ends the process: with exit code 0 after an orderly stop, and
// otherwise with 1. A second signal ends the process at once.
//
// A program defines flags of its own on pflag.CommandLine before it calls Main. They are
// parsed when build is called.
func Main(options *Options, build func(ctx context.Context) ([]Kind, error)) {
	stop, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(stop, restore)
	options.AddFlags(pflag.CommandLine)
	pflag.Parse()
	options.SetupLogging(os.Stderr)
	if err := runMain(stop, options, pflag.Args(), build); err != nil {
		logErrors(err)
		os.Exit(1)
	}
}

// logErrors logs why the operator ends. Each of several joined errors, for example of a file, has
// its own line.
func logErrors(err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			logErrors(err)
		}
		return
	}
	klog.ErrorS(err, "The operator ends")
}

func runMain(stop context.Context, options *Options, args []string, build func(ctx context.Context) ([]Kind, error)) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q: the command accepts only flags, see --help", args[0])
	}
	if err := options.Validate(); err != nil {
		return err
	}
	kinds, err := build(stop)
	if err != nil {
		return err
	}
	if kinds, err = options.Select(kinds...); err != nil {
		return err
	}
	return Run(stop, *options, kinds...)
}
