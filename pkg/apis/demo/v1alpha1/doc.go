// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is version v1alpha1 of the API group demo.example.com.
//
// A DemoApp is one release of the embedded chart demo-app. A DemoAppCluster creates one
// DemoApp for each selected node. The CustomResourceDefinitions in artifacts/crds, deep
// copies, clients, informers, listers and apply configurations are generated from these
// types and their markers. Run "make generate" after a change.
//
// The package holds the API contract only: types, their limits, and the names of
// conditions and reasons. It imports only other API packages of this project.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.example.demoapp-controller.pkg.apis.demo.v1alpha1
// +groupName=demo.example.com
// +groupGoName=Demo
package v1alpha1
