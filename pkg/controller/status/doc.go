// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status makes conditions and writes a status at most once per pass.
//
// [Editor] sets conditions on a copy of an object's status. It keeps the rules
// that every kind shares: observedGeneration on each condition,
// lastTransitionTime only when the status of the condition changes, messages
// that fit, and the kstatus contract, by which kubectl wait, Helm, Flux and
// Argo CD read any kind: Ready says whether the object is as asked for,
// Reconciling that work goes on, Stalled that a person must act; the last two
// are absent when they do not hold, and never together.
//
// [Commit] ends a pass, whether it failed or not: it compares the status that
// the pass made with the one that it found and writes only a difference, with [Apply].
// [Throttle] holds back statuses that tell no more than progress.
package status
