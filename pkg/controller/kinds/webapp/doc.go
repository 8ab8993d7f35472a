// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webapp keeps WebApps: a Deployment of a container image and a Service.
//
// desired.go has the children, status.go the status, and blocked.go the blocked images.
package webapp
