// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datastore keeps what outlives a database: the volumes of its servers, and the
// Secret with its credentials. They are no children, because a new owner of the same name
// must find them, and because a new password does not open old data.
//
// [Claims] compares what an owner desires with the volumes that exist. [Secrets] creates,
// adopts and completes the Secret. Both work on objects with the label of the owner.
package datastore
