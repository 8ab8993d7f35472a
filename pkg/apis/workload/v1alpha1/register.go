// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// SchemeGroupVersion is the group and version that generated code uses for these types.
// No API server serves it.
var SchemeGroupVersion = schema.GroupVersion{Group: "workload.demo.example.com", Version: "v1alpha1"}
