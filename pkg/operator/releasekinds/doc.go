// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releasekinds registers kinds with Helm releases with package operator: kinds of
// watches.yaml ([File]), and kinds of a program ([Kinds], or [Func] if they need the clients
// of the process). All kinds of a process share one [Engine].
//
// The kinds have no operator.Kind.Resources. A manager follows the CRD of each kind, so that
// kinds start and stop while the process runs.
package releasekinds
