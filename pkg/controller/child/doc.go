// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package child keeps the objects that an object of ours owns.
//
// [Set] is for a fixed number of children of any kinds. [Set.Ensure] takes the desired
// children as apply configurations and applies them on the API server, under one field
// manager. What was applied is written to the owner's status. So a child that is as desired
// costs no request, also after a restart. A child that others changed or deleted is
// restored at once, and one that is no longer desired is deleted. A child that others
// change again and again is restored at growing intervals. [Report] turns the result into
// conditions.
//
// [Keeper] is for many children of one kind, which come and go with other objects. It
// creates, updates and deletes whole objects, and [InBatches] runs many writes at once,
// slowly at first, so that an API server which refuses one of them is not asked for all.
//
// An owned object names its owner as its controller. Nothing that belongs to others is
// touched: creations are refused by the API server when the name is taken, and all other
// writes carry the UID or the resourceVersion of what was looked at.
//
// A cache lags behind own writes. Both add own writes to what is cached, until the cache
// has passed them, so that a pass neither writes twice nor takes an old state for drift.
package child
