// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images decides which container images are blocked. Image references are
// compared in their normalized form, see [registries.Name]: nginx is
// docker.io/library/nginx:latest.
//
// A list of blocked images is no boundary: the same image has other names in other registries.
package images
