// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"flag"
	"testing"
)

var faults = flag.Bool("faults", false, "also break databases and the node")

// withFaults skips a test that breaks something, unless the flag is set. Such tests take minutes each.
func withFaults(t *testing.T) {
	t.Helper()
	if !*faults {
		t.Skip("the flag -faults is not set")
	}
}
