// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"

	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/test/expect"
)

// TestOwners: an object has the release of its own name and those that it named last.
func TestOwners(t *testing.T) {
	name := func(name string) cache.ObjectName { return cache.NewObjectName("ns", name) }
	var o owners

	o.add(name("a"), name("a"))
	o.add(name("a"), name("x"))
	o.add(name("b"), name("x"))
	expect.Equal(t, "owners of x", []cache.ObjectName{name("x"), name("a"), name("b")}, o.of(name("x")))
	expect.Equal(t, "owners of a", []cache.ObjectName{name("a")}, o.of(name("a")))

	o.set(name("a"), []cache.ObjectName{name("y"), name("y"), name("a")})
	o.forget(name("b"))
	expect.Equal(t, "owners of x after a change", []cache.ObjectName{name("x")}, o.of(name("x")))
	expect.Equal(t, "owners of y", []cache.ObjectName{name("y"), name("a")}, o.of(name("y")))
}
