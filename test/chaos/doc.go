// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chaos injects faults between the operator and the API server, into the process and into
// its environment: quotas, admission, permissions, namespaces, etcd. It compares each result with
// an undisturbed run.
//
// A subject is a kind with one object of it: the object is created, changed, drifts and is deleted.
// An undisturbed run records the state after each of these steps: objects, status, release records,
// and the number of events and audit records. Times, UIDs and names of namespaces are left out.
// Each disturbed run then has to come to the same states.
//
// Generated changes need no undisturbed run: the state after any changes is compared with the state
// of a fresh object with the same spec.
//
// Most runs share one operator, which connects to the API server through a proxy. Each run has a
// namespace of its own, so a fault hits one run, and many runs are side by side. The tests that
// break something for all runs are not parallel.
package chaos
