// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apps gives integration tests a namespace with DemoApps to act on and to wait for.
//
//	ns := apps.New(t, shared)
//	ns.Create(apps.Named("web"))
//	web := ns.AwaitReady("web")
//	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Hello" })
//
// The DemoApps are watched from the beginning, so that a test waits without asking, and sees states that do not last:
// Namespace.Versions has every version that there was, and when it was seen. Waiting for a state never ends with a
// version from before the test's own last write.
//
// What goes wrong ends the test, like the functions of package cluster do. All methods must be called from the test's
// own goroutine.
package apps
