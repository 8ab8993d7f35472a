// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade tests the upgrade of the operator itself, from each version in milestones.txt to
// this one.
//
// For each milestone, the test builds the operator of that commit from the git history. It runs
// this operator with the CRDs and the RBAC of the commit, and creates DemoApps and other resources.
// Then it replaces CRDs, RBAC and operator, as a user does. The upgrade restarts no pod, loses no
// field of a stored object, and adds no revision without a cause.
//
// The history must be complete. In a shallow clone, the test fails; "git fetch --unshallow"
// completes the clone.
package upgrade
