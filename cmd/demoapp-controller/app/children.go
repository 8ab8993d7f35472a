// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/operator"
)

// addChildren runs an optional kind of children, whose API is served now. name is that of the part in logs.
func addChildren(env *operator.Environment, name string, set *child.Set, loop child.Loop, kind child.Kind) error {
	added, err := set.Add(loop, kind)
	if err != nil {
		return err
	}
	env.AddController(name, added.Run, added.Synced()...)
	return nil
}
