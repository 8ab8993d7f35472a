// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ssa has the rules of server-side apply that several packages need. It creates an object
// only if it is absent, and changes only the object with a given UID. It detects changes of a
// manager's fields by a digest of the manager's entry in managedFields, and restores lists that a
// forced apply cannot restore. The package sends no requests.
package ssa
