// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command certificates prints the root certificates of the image in PEM. The Dockerfile uses it.
package main

import (
	"fmt"
	"os"

	"github.com/example/demoapp-controller/hack/image/roots"
)

func main() {
	if _, err := os.Stdout.Write(roots.PEM()); err != nil {
		fmt.Fprintln(os.Stderr, "certificates:", err)
		os.Exit(1)
	}
}
