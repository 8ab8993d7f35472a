// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 has the conditions and reasons that the kinds of all groups share.
package v1
