// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fields compares the fields of an object of a chart with the fields of the live object.
//
// The managedFields of the live object say which client owns a field. [Foreign] returns the fields
// that only other clients own, and [Lost] the fields that the engine no longer owns. [Digest]
// identifies the former without decoding them. An [IgnoreRule] names fields that other clients may
// change: [Ignored] finds them among the paths of managedFields, and [Sparing] copies their live
// values. All functions are pure.
package fields
