// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package child creates, changes and deletes the objects that an object of ours
// owns, and remembers what it wrote until the cache has seen it.
//
// An owned object names its owner as its controller. Nothing that belongs to
// somebody else is ever touched: [Keeper.Create] is a plain create, which the API
// server refuses when the name is taken; [Keeper.Update] carries the
// resourceVersion, and [Keeper.Delete] the UID, of what was looked at.
//
// A cache is behind one's own writes. [Keeper.Children] adds what was written to
// what is cached, until the cache has passed the version of the write, so that a
// pass neither creates an object twice nor counts one as ready that it has just
// changed.
//
// [InBatches] runs many writes at once, slowly at first, so that an API server
// that refuses one of them is not asked for all.
package child
