// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the command demoapp-controller: its flags, and the list of its kinds. Package operator runs them.
//
// Each kind is registered by a function in a file of its own, which names the kind's CRDs and wires its informers and its
// controller; kinds.go lists these functions.
//
// The process exits with 0 after an orderly stop; with 1 when something failed, the lease was lost, or workers had to be
// abandoned; with 2 when a flag is wrong. A second signal ends it at once.
package app
