// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance holds the Helm engine of pkg/helm against Helm itself.
//
// Each scenario plays the same steps twice on a real API server: through the stock SDK (helm.sh/helm/v4/pkg/action, with
// its own client and storage), and through the engine. Both use the same release name, each in a namespace of its own.
// After every step the two worlds must be equal: live objects with their field managers, release records field by field,
// which hooks ran and in which order, in which order kinds were created and deleted, and what kind of error there was.
// Only what cannot be equal is left out of the comparison: UIDs, resourceVersions, times and the namespace's name. Where
// the engine differs on purpose, the scenario names a deviation, and the deviation says why.
//
// Beyond the comparison, the package holds what the engine promises and Helm does not have:
//
//   - Drift is exact: every single field of every object of the charts is changed and removed by another field manager.
//     Each change is seen and mended, and fields that others add are left alone.
//   - Faults do no harm: whichever write request fails, and however, the engine comes to the same end.
//   - Nothing that users do to a release, in whatever order, keeps the engine from bringing back what is wanted.
//   - The helm command works on the engine's releases, and the engine on those of the command.
//
// The charts are in testdata/charts. The tests have the build tag conformance:
//
//	go test -tags conformance ./test/conformance
package conformance
