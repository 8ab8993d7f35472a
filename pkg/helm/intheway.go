// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
)

// InTheWay looks at an object that an [OwnershipConflictError] named, with one request
// for its metadata. The answer is OwnershipConflictError.Seen as long as nothing
// changed that tells who owns the object, another text after that, and empty when the
// object is gone.
func (e *Engine) InTheWay(ctx context.Context, object ObjectReference) (string, error) {
	mapping, err := e.mapper.mapping(InventoryEntry{ObjectReference: object}.groupVersionKind())
	if meta.IsNoMatchError(err) {
		return "", nil // It went with its kind.
	}
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", object, err)
	}
	live, err := e.metadata.Resource(mapping.Resource).Namespace(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", object, err)
	}
	return ownershipOf(live), nil
}

// inTheWay is the error about an object that belongs to another owner. About objects
// outside the release's namespace, it tells nothing more.
func (o *operation) inTheWay(info *resource.Info, live *unstructured.Unstructured) *OwnershipConflictError {
	conflict := &OwnershipConflictError{Object: reference(info), Seen: ownershipOf(live)}
	if info.Namespace == o.release.Namespace {
		conflict.Holder = o.holder(live)
	}
	return conflict
}

// ownershipOf stands for what tells who owns an object.
func ownershipOf(object metav1.Object) string {
	ownership, err := json.Marshal(struct {
		UID        types.UID
		Manager    string
		Name       string
		Namespace  string
		References []metav1.OwnerReference
	}{
		UID:        object.GetUID(),
		Manager:    object.GetLabels()[managedByLabel],
		Name:       object.GetAnnotations()[releaseNameAnnotation],
		Namespace:  object.GetAnnotations()[releaseNamespaceAnnotation],
		References: object.GetOwnerReferences(),
	})
	if err != nil {
		return string(object.GetUID())
	}
	sum := sha256.Sum256(ownership)
	return hex.EncodeToString(sum[:16])
}
