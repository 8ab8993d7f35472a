// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster gives tests a real Kubernetes control plane and the operator as a process on it.
//
// A test package has one control plane for all its tests; each test gets a namespace of its own:
//
//	var shared *cluster.Cluster
//
//	func TestMain(m *testing.M) {
//		os.Exit(cluster.Main(m, cluster.Options{Audit: true}, func(c *cluster.Cluster) { shared = c }))
//	}
//
//	func TestInstall(t *testing.T) {
//		operator := cluster.StartOperator(t.Context(), t, shared)
//		namespace := shared.Namespace(t)
//		...
//	}
//
// # Processes
//
// Each test package has a control plane of its own, so packages run side by side. Request budgets
// and cluster-scoped objects have no neighbors. The control plane is a subprocess
// (hack/localcluster) that ends when its stdin is closed; the kernel kills the operator when the
// test dies (on Linux). So a test binary that crashes leaves no process behind.
//
// The operator runs as the ServiceAccount of artifacts/deploy, with exactly the rules of
// artifacts/deploy. Set DEMOAPP_CONTROLLER_BINARY to test a binary that is built already.
//
// Waiting is done with Eventually, which looks until a condition holds. Tests for which a fake
// clientset suffices do not belong here.
package cluster
