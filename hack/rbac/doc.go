// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command rbac derives all RBAC files from those that are written by hand, with their comments:
// artifacts/deploy/10-rbac.yaml, artifacts/kinds/<kind>/rbac.yaml, artifacts/rbac/metrics-auth.yaml
// and artifacts/deploy/11-user-roles.yaml. It writes
//
//   - artifacts/rbac/namespaced: Roles for an operator with --namespaces, without any ClusterRole;
//   - artifacts/rbac/impersonating: an operator whose releases belong to ServiceAccounts of
//     tenants;
//   - artifacts/kinds/<kind>/user-roles.yaml: the roles of users for an opt-in kind, from its CRD;
//   - artifacts/kinds/<kind>/Kustomization: the CRD and all roles of an opt-in kind;
//   - files/rbac of the chart: the same rules without the objects around them;
//   - the rules that the operator asks for at its start, as Go code;
//   - the tables of docs/security.md.
//
// The comments of artifacts/deploy/10-rbac.yaml explain the marks that say where the variants
// differ.
package main
