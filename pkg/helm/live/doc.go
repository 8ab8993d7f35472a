// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live observes the objects of releases in the cluster.
//
// A [Watcher] watches each kind from the first release that needs it to the last. It caches an
// [Object] in place of the complete object: names, marks, health, and the fingerprint that shows
// drift. An [Event] is a change of drift or health that this process did not make. [Sources] lists,
// watches and applies the objects of a kind in its cheapest form.
package live
