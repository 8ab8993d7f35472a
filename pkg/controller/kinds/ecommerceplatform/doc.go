// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ecommerceplatform keeps EcommercePlatforms: a database, a cache, a backend, a frontend,
// monitoring and an Ingress, which start in this order.
//
// environment.go has the defaults of each environment, desired.go the components, and status.go the
// status. Package tier builds the components, package component starts them, and package claim
// keeps a host for one platform.
package ecommerceplatform
