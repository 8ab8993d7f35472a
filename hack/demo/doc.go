// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo plays a tour of the operator on a real cluster: what "make demo" runs.
//
//	go run ./hack/demo                                  # on a control plane of its own, which ends with the tour
//	go run ./hack/demo --kubeconfig ~/.kube/config      # on the cluster of that file's current context
//
// Each step prints the command that a user would type, runs exactly that command, and prints its output and duration. A
// step waits with "kubectl wait" and with watches, never for a fixed time. The first step that fails ends the tour with exit
// code 1. The tour then shows what it expected and what it observed, the conditions of the DemoApps, and the end of the
// operator's log.
//
// The operator runs as a process on this machine, with the ServiceAccount and the RBAC of artifacts/deploy, so that a
// missing permission makes the tour fail. A second operator has a newer chart, which "go build -overlay" puts in place of
// the embedded one. It replaces the first one during the tour.
//
// # Clean-up
//
// The tour leaves nothing behind, even after an interrupt. On another cluster, it uses the namespace demoapp-tour and removes
// what it created: that namespace, the operator's namespace, the RBAC and the CRDs of the operator and of the further kinds,
// the IngressClass, the PersistentVolumes and the audit records. It installs the HTTPRoute of the Gateway API only if the
// cluster does not have it, and then removes it. It refuses a cluster with an operator, since it could not distinguish its
// own objects.
//
// The tour creates PersistentVolumes only for the simulated nodes of hack/localcluster, which mount none. Other clusters need a
// default StorageClass, whose provisioner creates and deletes the volumes of the databases. The clean-up awaits their deletion,
// and fails if the StorageClass retains them.
//
// A killed tour cannot clean up. Its own control plane ends nevertheless, because it lives only as long as the tour holds its
// pipe, and the operator ends soon after that. On another cluster, the next tour finds the remains and removes them first.
//
// # Layout
//
// tour.go has the tour, a table of the steps in steps.go, steps_gates.go, steps_policies.go, steps_cluster.go, steps_hybrid.go
// and steps_kinds.go; license.go is the license server of one of them, and newer.go builds the newer operator of another.
// play.go plays such a table on a shell, shell.go is the shell, print.go is what the user sees. binaries.go, operator.go,
// process.go and stage.go build up what the tour needs and tear it down; crds.go finds the CRDs. main.go holds them together.
package main
