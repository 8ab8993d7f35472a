// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images decides which container images are blocked. Image references are
// compared in their normalized form: nginx is docker.io/library/nginx:latest.
package images
