// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package website keeps Websites: a ConfigMap with the page, a Deployment that serves it,
// and a Service. It is the example of docs/adding-a-kind.md: desired.go has the children, status.go
// the status, and packages kind and child do the rest.
package website
