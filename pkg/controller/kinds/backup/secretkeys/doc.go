// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package secretkeys knows which keys the Secrets of tenants have. It reads no Secret: the API
// server records the names of keys in the managed fields, which are metadata. The process therefore
// never sees a value.
package secretkeys
