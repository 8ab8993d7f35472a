// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package functions limits the template functions of Helm that produce a number of items or bytes,
// such as until and repeat. One rendering can produce 100,000 items and 10 MiB.
package functions
