// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the operator on a real API server of its own and
// writes the report docs/benchmarks.md.
//
// Everything is measured in the same run, on the same machine, and against the
// same floor: a program (see floor) that sends only the requests which no
// operator can do without, with as many workers as the operator has. Ratios to
// the floor are what to look at; times depend on the machine.
//
// For each size, a fresh control plane is started. The floor goes first, in a
// namespace that the operator does not watch, and what it made is removed: both
// begin on a cluster without DemoApps. Then the operator installs, idles,
// upgrades, corrects drift, restarts and uninstalls.
package main
