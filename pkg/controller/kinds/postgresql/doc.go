// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package postgresql keeps PostgreSQLs: a StatefulSet of a primary and its standbys, their
// credentials, volumes and backups. docs/postgresql.md describes the kind.
//
//   - desired.go has the children, and scripts the scripts of the pods.
//   - backup.go has the Backup, whose kind need not be installed.
//   - Package datastore has the credentials and the volumes, which outlive the PostgreSQL.
package postgresql
