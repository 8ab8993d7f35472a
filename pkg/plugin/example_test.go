// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"os"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/example/demoapp-controller/pkg/plugin"
)

// A program on the library builds a plugin for its own kinds. kubectl runs the program
// kubectl-shop as "kubectl shop".
func Example() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	options := plugin.Options{Program: "kubectl-shop", Operator: types.NamespacedName{Namespace: "shop-system", Name: "shop-operator"}}
	os.Exit(plugin.Execute(context.Background(), options, os.Args[1:], streams))
}
