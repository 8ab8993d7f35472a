// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ssa holds the facts of server-side apply that more than one package relies on:
// how an apply creates only, or changes one object only; how the digest of a manager's
// entry in managedFields shows that others changed its fields; and how a list is restored
// that a forced apply cannot restore. It sends no requests.
package ssa
