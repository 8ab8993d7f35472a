// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status edits conditions and writes a status at most once per pass.
//
// [Editor] sets conditions on a copy of an object's status, by the rules that all
// kinds share:
//
//   - each condition has an observedGeneration;
//   - lastTransitionTime changes only with the status of the condition;
//   - a message that exceeds the limit is truncated;
//   - the conditions follow kstatus, which kubectl wait, Helm, Flux and Argo CD
//     read. Ready is True if the observed state is the desired state. Reconciling is
//     True while the controller works. Stalled is True if a person must act.
//     Reconciling and Stalled are absent instead of False, and never both present.
//
// [Commit] ends every pass, also a failed one. It writes the status only if the
// pass changed it, with [Apply]. [Throttle] delays statuses that report only progress.
package status
