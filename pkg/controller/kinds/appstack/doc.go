// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package appstack keeps AppStacks: a PostgreSQL, a cache, a backend and a frontend, which
// start in this order. Package tier has the components, and package component starts them.
package appstack
