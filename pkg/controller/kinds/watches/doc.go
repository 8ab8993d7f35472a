// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watches installs a chart for each custom resource of any kind, as operator-sdk's
// helm-operator and helm-operator-plugins do.
//
// A [ReleaseKind] has the kind, its chart, and its options. A [Manager] runs one informer, queue
// and [release.Lifecycle] for each kind while the API server serves it. There is no second
// lifecycle: a binding returns the desired release of a custom resource, and the conditions of the
// upstream operators are derived from the conditions of the release.
//
// Package file has the same kinds as a file, watches.yaml.
package watches
