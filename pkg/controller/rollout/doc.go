// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout limits how many objects adopt a change at a time. It halts the
// rollout when too many objects have failed with the change.
//
// A [Queue] tracks objects by their keys. An object is due, queued, active, failed or
// settled; settled objects are not stored. [Queue.Ask] decides whether an object may
// begin. A queued object is woken when it may begin, so that no object polls.
//
// # Namespaces
//
// A namespace belongs to a tenant, and no tenant stops the rollout of another tenant:
//
//   - A namespace has at most half of the places of active objects while objects of
//     other namespaces wait or are due. Further active objects of the namespace, which
//     began without an answer, take no place of the other namespaces.
//   - The namespace with the fewest active objects has the next turn, and of equal ones
//     the namespace that waits longest for a turn. Within a namespace, the oldest object has it.
//   - Failed objects halt the rollout in their own namespace. The rollout halts in all
//     namespaces when objects of as many namespaces have failed.
//
// An operation takes O(k + log n) time for k namespaces and n queued objects of one
// namespace. When the rollout is halted or resumed, an operation notifies the waiting
// objects.
//
// The queue is in memory. After a restart, [Queue.Recall] restores objects from their
// observed state.
package rollout
