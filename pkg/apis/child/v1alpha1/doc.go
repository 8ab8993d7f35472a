// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds what kinds with children have in common in their status: the
// children that the operator applied, and the reasons of the conditions about them. It is
// no API group of its own: the types are fields of other kinds. The group name is only a
// heading of docs/api.md.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +groupName=children.demo.example.com
// +k8s:openapi-model-package=com.github.example.demoapp-controller.pkg.apis.child.v1alpha1
package v1alpha1
