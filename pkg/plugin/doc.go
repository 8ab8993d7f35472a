// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin is the kubectl plugin as a library: [Execute] runs it. A program on the library
// builds a plugin for its own kinds:
//
//	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
//	options := plugin.Options{Program: "kubectl-shop", Operator: types.NamespacedName{Namespace: "shop-system", Name: "shop-operator"}}
//	os.Exit(plugin.Execute(context.Background(), options, os.Args[1:], streams))
//
// Each command has a file. A command reads with package inspect and prints; it decides nothing
// about the state of objects itself.
//
// # Exit codes
//
// 0 is success. 1 and 2 are answers of commands for scripts, such as "waits" and "needs a person".
// 3 means that the command failed, or was used wrongly.
package plugin
