// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ssa writes objects by server-side apply, for releases and for children. [Prepare] returns
// an object in the form in which it is sent, and [Check] names the parts that this form leaves out.
// An [Applier] creates an object only if it is absent, changes only the object with a given UID,
// and restores lists that a forced apply cannot restore. [IsServerFault] distinguishes an error of
// the server from an error of the object, and a [RefusedError] is an object that the API server
// will refuse again.
//
// A [Fingerprint] detects changes of a manager's fields by a digest of the manager's entry in
// managedFields.
package ssa
