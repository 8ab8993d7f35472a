// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout lets a change that concerns many objects through to a few of
// them at a time, and no further once too many have failed with it.
//
// A [Queue] keeps account of objects by their keys. Each is in one of four
// places: it waits for its turn, it has begun and is active, it has failed, or
// it is settled and not kept at all. Who may begin is answered by [Queue.Ask];
// who has to wait is woken when the turn is theirs, so that nobody polls. All
// operations take time that grows with the logarithm of how many wait, but for
// the moment in which the change is halted or goes on: everybody who waits is
// told of that.
//
// The queue lives in memory. After a restart, [Queue.Recall] takes in what can be
// seen of the objects.
package rollout
