// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releaseworld runs the controller of a release kind with the real Helm engine on a fake
// API server, in a synctest bubble:
//
//	releaseworld.Bubble(t, func(w *releaseworld.World) {
//		w.Serve(shops, "Shop", true)
//		w.Start(func() (releaseworld.Run, error) { ... })
//		w.Edit("Shop", "default/a", "kubectl", ...)
//		w.Settle()
//	})
//
// A test changes objects as other clients do, and compares objects, requests
// ([fakeapi.Server.TakeRequests]), release records and events.
package releaseworld
