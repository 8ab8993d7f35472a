// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package served runs the controller of a kind while the API server serves the kind. CRDs
// may be missing at first, and may be changed, removed and created again later. [Establishes] says
// whether a CRD makes the API server serve a version.
package served
