// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apps gives integration tests a namespace with DemoApps to act on and to wait for.
//
//	ns := apps.New(t, shared)
//	ns.Create(apps.Named("web"))
//	web := ns.AwaitReady("web")
//	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Hello" })
//
// The DemoApps are watched from the beginning. So a test waits without requests and sees states
// that do not last: Namespace.Versions has every version, and when it was observed. A wait never
// ends with a version that is older than the test's own last write.
//
// A failure ends the test, as in package cluster. All methods must be called from the test's own
// goroutine.
package apps
