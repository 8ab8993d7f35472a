// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance compares the Helm engine of pkg/helm with Helm itself.
//
// Each scenario runs the same steps twice on a real API server: through the stock SDK
// (helm.sh/helm/v4/pkg/action, with its own client and storage), and through the engine. Both use
// the same release name, each in a namespace of its own. After every step, the two worlds must be
// equal: live objects with their field managers, release records field by field, the hooks that ran
// and their order, the order in which kinds were created and deleted, and the class of the error.
// UIDs, resourceVersions, times and the namespace's name are left out, since they cannot be equal.
// If the engine differs on purpose, the scenario names a deviation, and the deviation says why.
//
// Beyond the comparison, the package tests promises of the engine that Helm does not make:
//
//   - Drift is exact: another field manager changes and removes every field of every object of the
//     charts. Each change is observed and corrected, and foreign fields are kept.
//   - Fields that the cluster's controllers write are no drift, survive upgrades, and cause no
//     request.
//   - An interruption does no harm: the engine completes what a killed engine, or a killed helm
//     command, has begun.
//   - The engine restores the desired state after any sequence of changes by users.
//   - The helm command works on the engine's releases, and the engine works on releases of the
//     command.
//
// The charts are in testdata/charts. The tests have the build tag conformance:
//
//	go test -tags conformance ./test/conformance
package conformance
