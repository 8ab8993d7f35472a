// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import (
	"context"
	"errors"
)

// errNoNode says that only Linux runs containers.
var errNoNode = errors.New("a real node needs Linux")

// nodeInit is the first process of a real node.
type nodeInit struct {
	dir              string
	programs, images []string
}

func (*nodeInit) run(context.Context) error { return errNoNode }

func checkNode() error { return errNoNode }

func ownNetwork() error { return errNoNode }

func createCgroups(string) error { return errNoNode }

func removeCgroups(string) error { return nil }
