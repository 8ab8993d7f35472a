// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Patcher is the part of a generated typed client that writes finalizers and statuses.
type Patcher[T any] interface {
	Patch(
		ctx context.Context, name string, pt types.PatchType, data []byte,
		opts metav1.PatchOptions, subresources ...string,
	) (T, error)
}
