// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is version v1 of the API group backup.example.com, which has the kind Backup.
//
// The types and their markers are the source of the CustomResourceDefinition in
// artifacts/kinds/backup and of all generated code. Run "make generate" after a change.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.example.demoapp-controller.pkg.apis.backup.v1
// +groupName=backup.example.com
package v1
