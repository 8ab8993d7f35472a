// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package parameters decides the settings of the servers of a PostgreSQL: defaults that follow from
// the memory limit, and the parameters of the user. All functions are pure.
package parameters
