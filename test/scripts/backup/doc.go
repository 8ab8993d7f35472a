// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backup tests the scripts of Backups against real servers on loopback: PostgreSQL,
// MariaDB, and a bucket that speaks S3. The tests have the build tag integration. They need the
// Debian packages postgresql, mariadb-server and rclone.
package backup
