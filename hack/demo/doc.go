// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo plays a tour of the operator on a real cluster: what "make demo" runs.
//
//	go run ./hack/demo                                  # on a control plane of its own, gone afterwards
//	go run ./hack/demo --kubeconfig ~/.kube/config      # on the cluster of that file's current context
//
// Each step prints the command that a user would type, runs exactly that command, and prints what came back and how
// long it took. A step waits with "kubectl wait" and with watches, never for a fixed time. The first step that does not
// happen ends the tour: it says what was expected and what was seen, with the conditions of the DemoApps and the end of
// the operator's log, and the exit code is 1.
//
// The operator runs as a process on this machine, under the ServiceAccount and the RBAC of artifacts/deploy, so that a
// missing permission shows up here. Two of them are built: one is as it is, and the other has a newer chart inside, which
// "go build -overlay" puts in place of the embedded one. The second takes over from the first in the course of the tour.
//
// # What is left behind
//
// Nothing, also after an interrupt. On another cluster, the tour plays in the namespace demoapp-tour and removes what it
// made: that namespace, the operator's, the RBAC, the CRDs, the IngressClass and the audit records. It brings the HTTPRoute
// of the Gateway API only where there is none, and then removes it. It refuses to play where the operator is installed
// already, since it could not tell what is its own.
//
// A tour that is killed cannot clean up. Its own control plane ends all the same, since it lives only as long as the pipe
// that the tour holds, and the operator gives up soon after that. On another cluster, the next tour finds the remains and
// removes them first.
//
// # Layout
//
// tour.go is the tour, a table of the steps in steps.go, steps_gates.go, steps_policies.go and steps_cluster.go; license.go
// is the license server of one of them, and newer.go builds the newer operator of another. play.go plays such a table on a
// shell, shell.go is the shell, print.go is what the user sees. binaries.go, operator.go, process.go and
// stage.go build up what the tour needs and tear it down; crds.go finds the CRDs. main.go holds them together.
package main
