// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificates reads the Secrets with the CA and the certificate of each PostgreSQL that
// has no Secret of its user.
package certificates
