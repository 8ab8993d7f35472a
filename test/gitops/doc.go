// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops checks the verdicts of Argo CD and Flux about custom resources. It runs the health
// check of artifacts/argocd as Argo CD runs it, with the same Lua interpreter and the same
// libraries, and compares its results with the results of kstatus, which Flux uses.
package gitops
