// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backup keeps Backups: a CronJob whose pods dump a database and upload the dump to a
// bucket. As in package website, desired.go has the children, and status.go has the status.
package backup
