// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upstream plays the operators that releases are taken over from: operator-sdk's
// helm-operator, and operators on helm-operator-plugins. An [Operator] imitates them with the SDK of
// Helm 4. The test of this package builds and runs the real programs, which have Helm 3. The modules
// in the folders sdk and plugins pin their versions, apart from the requirements of this module.
package upstream
