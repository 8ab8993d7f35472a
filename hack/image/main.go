// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/example/demoapp-controller/hack/image/pack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	release := flag.String("release", "", "version of a release; empty: the version of the binaries")
	reference := flag.String("tag", "", "name and tag of the image in the archives")
	output := flag.String("output", "", "directory that is replaced with the image")
	push := flag.String("push", "", "name and tag of the image in a registry, to which it is pushed; empty: no push")
	flag.Parse()

	err := run(ctx, *release, *reference, *output, *push, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, release, reference, output, push string, binaries []string) error {
	bundle, err := pack.Build(release, binaries...)
	if err != nil {
		return err
	}
	digest, err := bundle.Write(output, reference)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s@%s\n", output, reference, digest)
	if push == "" {
		return nil
	}
	pushed, err := bundle.Push(ctx, push)
	if err != nil {
		return err
	}
	fmt.Printf("pushed: %s\n", pushed)
	return nil
}
