// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the command demoapp-controller: its flags and the list of its kinds. Package
// operator runs the kinds.
//
// Each kind has a file with a function that registers the kind, names its CRDs, and builds its
// informers and its controller. kinds.go lists these functions.
//
// The exit code is 0 after an orderly stop, and 2 if a flag is invalid. It is 1 if a part failed,
// if the lease was lost, or if workers did not finish. A second signal ends the process at once.
package app
