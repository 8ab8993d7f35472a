// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package architecture holds, as a test, which package may import which. A package
// under pkg that no rule names is an error.
package architecture
