// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reload rolls the Deployments, StatefulSets and DaemonSets that use a ConfigMap when its
// content changes.
//
// A workload asks for that by a label. It is rolled by one annotation of its pod template, which
// has the hash of the content. The annotation belongs to a field manager of its own, so that tools
// which apply the workload leave it alone.
package reload
