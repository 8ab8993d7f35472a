// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upstream plays the operators that releases are taken over from: operator-sdk's
// helm-operator, and operators on helm-operator-plugins.
package upstream
