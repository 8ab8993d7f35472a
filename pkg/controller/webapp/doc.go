// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webapp keeps WebApps: a Deployment of a container image and a Service.
//
// desired.go says what the children are, and status.go what the status shows. blocked.go
// finds WebApps with blocked images, whose rollouts wait.
package webapp
