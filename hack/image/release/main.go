// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	r := release{}
	flag.StringVar(&r.version, "version", "", "version of the release, such as v1.2.3")
	flag.StringVar(&r.repository, "repository", "", "repository of the image in its registry")
	flag.StringVar(&r.image, "image", "", "directory that hack/image wrote")
	flag.StringVar(&r.manifest, "manifest", "", "file with all manifests")
	flag.StringVar(&r.chart, "chart", "", "directory of the Helm chart")
	flag.StringVar(&r.output, "output", "", "directory that is replaced with the release")
	flag.Parse()
	r.binaries = flag.Args()

	if err := r.write(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	fmt.Printf("%s: version %s\n", r.output, r.version)
}
