// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package finalizer adds and removes one finalizer of an object.
//
// A write is a merge patch of metadata.finalizers. The patch names the uid and the
// resourceVersion of the object. If the object has changed, or another object has
// its name now, the API server answers with a conflict, which is returned. The
// patch therefore never reverts a change of another client. If the object is as
// desired, no request is sent.
package finalizer
