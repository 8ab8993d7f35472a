// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is version v1 of the API group cache.my.domain. It has the kind MemcachedBackup. The
// kind Memcached of the same group has no Go types: the values of its chart are its schema.
//
// The types and their markers are the source of the CustomResourceDefinition in
// artifacts/kinds/memcachedbackup and of all generated code. Run "make generate" after a change.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.example.demoapp-controller.pkg.apis.cache.v1
// +groupName=cache.my.domain
package v1
