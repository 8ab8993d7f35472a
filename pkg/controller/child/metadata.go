// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HasMetadata reports whether current has all labels and annotations of desired.
func HasMetadata(current, desired metav1.Object) bool {
	return contains(current.GetLabels(), desired.GetLabels()) && contains(current.GetAnnotations(), desired.GetAnnotations())
}

func contains(all, some map[string]string) bool {
	for key, value := range some {
		if found, ok := all[key]; !ok || found != value {
			return false
		}
	}
	return true
}
