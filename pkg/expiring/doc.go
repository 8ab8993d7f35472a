// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expiring has a map whose entries expire.
//
// Of the caches of k8s.io/apimachinery/pkg/util/cache, Expiring has no bound, and in an
// LRUExpireCache the entries of one namespace evict the entries of another.
package expiring
