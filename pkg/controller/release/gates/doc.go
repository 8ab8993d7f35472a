// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gates has the gates that any kind with a release can use. Each is a function of
// values: what a pass found goes in, and a verdict comes out. A gate may ask a server, but
// it writes nothing.
package gates
