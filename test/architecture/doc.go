// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package architecture holds, as tests, rules about the whole repository. The first is
// which package may import which: a package under pkg that no rule names is an error.
// Further rules are about the size of plain kinds, log lines, sleeps in tests, and the links and
// names in the pages of docs.
package architecture
