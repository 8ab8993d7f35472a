// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package finalizer adds and removes one finalizer of an object.
//
// A write is a merge patch of metadata.finalizers that names the uid and the
// resourceVersion it was made for. The list can therefore not undo what
// someone else changed meanwhile, and the patch cannot reach a successor of
// the same name: the API server answers with a conflict, which is returned.
// Nothing is sent when the object is already as desired.
package finalizer
