// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout limits how many objects adopt a change at a time. It halts the
// rollout when too many objects have failed with the change.
//
// A [Queue] tracks objects by their keys. An object is queued, active, failed or
// settled; settled objects are not stored. [Queue.Ask] decides whether an object may
// begin. A queued object is woken when it may begin, so that no object polls.
//
// An operation takes O(log n) time for n queued objects. When the rollout is halted
// or resumed, an operation notifies all waiting objects.
//
// The queue is in memory. After a restart, [Queue.Recall] restores objects from their
// observed state.
package rollout
