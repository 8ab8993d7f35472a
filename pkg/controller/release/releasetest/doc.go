// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releasetest has a Helm engine in memory, for the tests of kinds with a release.
//
// An [Engine] takes the place of the real one in a lifecycle. It decides as the real
// engine does, and keeps per release a record and one object of each kind. A test makes
// calls fail by the fields of the engine, and changes a release as other clients do:
//
//	engine := releasetest.New(clock.Now(), record)
//	...
//	engine.Failures = []error{errRefused}
//	engine.Mutate(key, releasetest.Edit("ConfigMap"))
//	engine.Publish(key, helm.ObjectChanged)
package releasetest
