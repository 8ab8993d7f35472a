// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the types that kinds with pods inline in their spec. The package has no
// kind of its own. The group name is only a heading of docs/api.md.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +groupName=workload.demo.example.com
// +k8s:openapi-model-package=com.github.example.demoapp-controller.pkg.apis.workload.v1alpha1
package v1alpha1
