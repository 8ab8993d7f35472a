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
// # One control plane for several packages
//
// "make test-cluster" starts one control plane with "localcluster exec" and runs all packages on it. Main and Start then
// take that control plane instead of starting one. A package has the control plane for itself: a lock makes the next
// package wait, since request budgets and cluster-scoped objects would not survive a neighbor. Main and Stop remove all
// namespaces, CRDs and other cluster-scoped objects that the package made, and fail if one cannot be removed.
//
// A package starts a control plane of its own when it runs without "localcluster exec", or when its Options ask for
// what the shared one does not have. A test that restarts components of the control plane needs its own, too.
//
// # Processes
//
// A control plane of the package's own is that of hack/localcluster, run as a subprocess that ends when its stdin is closed; the operator is
// killed by the kernel when the test dies (on Linux). So a test binary that crashes leaves no process behind.
//
// The operator runs as the ServiceAccount of artifacts/deploy, with the rules of artifacts/deploy and no others. Set
// DEMOAPP_CONTROLLER_BINARY to test a binary that is built already.
//
// Waiting is done with Eventually, which looks until a condition holds. What a fake clientset could prove does not
// belong here.
package cluster
