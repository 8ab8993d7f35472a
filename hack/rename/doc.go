// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command rename gives a fork its own names. It changes all files that git tracks, and their
// paths:
//
//	-module     the module path, with the import paths and the names of OpenAPI models
//	-name       the name of the program, of its objects, field managers, metrics and alerts
//	-group      the API group of DemoApp and DemoAppCluster, with their labels and annotations
//	-namespace  the namespace of the operator; the namespace of audit records follows from it
//
// A name that is not given stays. The labels of stored release records stay too, because they
// say which release belongs to which owner. "make rename" calls this command, and generates the
// generated files again.
package main
