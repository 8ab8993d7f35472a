// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memcachedbackup keeps MemcachedBackups: a Deployment of memcached pods, whose names
// are in the status. The files have the same names as in package website: desired.go has the child,
// status.go has the status.
package memcachedbackup
