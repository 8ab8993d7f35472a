// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gates has the gates that any kind with a release can use. A gate is a function
// from the observed state of a pass to a verdict. A gate may query a server, but it
// writes nothing.
package gates
