// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shardcache makes informers that cache only the objects of selected shards. A shard is a
// range of the 64-bit FNV-1a hash of the namespace.
//
// An informer sends the ranges with its lists and watches, in the form of KEP-5866
// (ShardedListAndWatch). An API server that honors them sends only the selected objects. The
// informer drops all other objects before they enter the cache, because other API servers ignore
// the ranges.
//
// When the selection changes, an informer does not list all objects again. It lists the objects of
// the added shards, reports the objects of the removed shards as deleted, and goes on with a new
// watch from the resourceVersion that it had reached. An object that has changed since then comes
// from that watch. So the resourceVersion of the store never precedes its objects, on which package
// overlay relies. While the added shards cannot be listed, the informer goes on with its earlier
// shards.
//
// All informers of this package begin with a consistent read, also from API servers that cannot
// stream lists. So a new process never acts on a state that ended before its start.
package shardcache
