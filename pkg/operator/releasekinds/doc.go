// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releasekinds registers kinds with Helm releases with package operator: kinds of
// watches.yaml ([File]) and kinds of a program ([Kinds]). All kinds of a process share one
// [Engine].
package releasekinds
