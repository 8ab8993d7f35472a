// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package postgresql tests the scripts of PostgreSQL pods (pkg/controller/kinds/postgresql/scripts)
// against real servers, which run on 127.0.0.1. It needs PostgreSQL 15 of Debian's package
// "postgresql", and runs as root.
//
// The tests have the build tag integration:
//
//	go test -tags integration ./test/scripts/postgresql
package postgresql
