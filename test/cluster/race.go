// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package cluster

// RaceEnabled says that the tests and the operator run with the race detector.
const RaceEnabled = true
