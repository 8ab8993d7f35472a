// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package cluster

import "syscall"

// dieWithParent does nothing, because only Linux can tie a child's life to its parent's.
func dieWithParent(*syscall.SysProcAttr) {}
