// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Category is the category of the CRDs of all kinds that the operator serves, so that
// "kubectl get demoapp-controller" lists their objects, and clients find the kinds.
const Category = "demoapp-controller"

// AnnotationReport is the annotation on the Lease of the leader with an [OperatorReport], as JSON.
const AnnotationReport = "demo.example.com/operator"

// AnnotationReplicas is the annotation on the Lease of replicas that share the work, with the live
// replicas and their shards, as JSON.
const AnnotationReplicas = "demo.example.com/replicas"

// OperatorReport is what the leader reports about itself.
type OperatorReport struct {
	// Version is the version of the operator, such as v1.2.3.
	Version string `json:"version"`
	// Resources are the custom resources that the operator serves, as resource.group, sorted.
	Resources []string `json:"resources,omitempty"`
	// Kinds are the kinds of watches.yaml or of a program's own charts, as kind.group, sorted.
	// Their CRDs need no category.
	Kinds []string `json:"kinds,omitempty"`
	// Images are the images that the operator uses in place of those that it names itself.
	Images map[string]string `json:"images,omitempty"`
}
