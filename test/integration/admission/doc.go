// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission has the integration tests of the admission of WebApps, by the webhook and by
// policies, on a real API server. The rules hold for the whole cluster, so the tests run one after
// another.
package admission
