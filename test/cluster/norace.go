// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package cluster

// raceEnabled says that the tests run with the race detector, and the operator then does too.
const raceEnabled = false
