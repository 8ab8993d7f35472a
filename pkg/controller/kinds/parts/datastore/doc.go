// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datastore manages the objects that outlive a database: the volumes of its servers, and
// the Secret with its credentials. They are not children, because a new owner of the same name must
// find them, and because existing data does not accept a new password.
//
// [Claims] compares the desired volumes of an owner with the existing volumes. [Secrets] creates,
// adopts and completes the Secret. Both work on objects with the label of the owner.
//
// The Backup of a database is a child. [BackupFields] and [Suspended] explain its messages and its
// suspension to its owners.
package datastore
