// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs runs the commands of the pages that newcomers follow, as the package hack/pages
// describes it, on a local control plane.
package docs
