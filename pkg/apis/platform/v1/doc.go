// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is version v1 of the API group platform.example.com, which has the kind
// EcommercePlatform.
//
// The types and their markers are the source of the CustomResourceDefinition in
// artifacts/kinds/ecommerceplatform and of all generated code. Run "make generate" after a change.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.example.demoapp-controller.pkg.apis.platform.v1
// +groupName=platform.example.com
package v1
