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

	"github.com/example/demoapp-controller/pkg/helm/guard"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

// InTheWay returns the ownership of an object that an [OwnershipConflictError] names, with
// one request for its metadata. The result equals OwnershipConflictError.Seen until the
// object's UID, marks or owner references change. It is empty when the object is gone. It
// uses the namespace, scope and service account of the release.
func (e *Engine) InTheWay(ctx context.Context, release Release, object ObjectReference) (string, error) {
	within, err := e.boundsOf(release)
	if err != nil {
		return "", err
	}
	ctx = guard.With(ctx, within)
	mapping, err := e.mapper.MappingInAnyVersion(InventoryEntry{ObjectReference: object}.GroupVersionKind())
	if meta.IsNoMatchError(err) {
		return "", nil // The object is gone with its kind.
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

// inTheWay returns the error about an object of another owner. It names the owner only for
// an object in the release's namespace.
func (o *operation) inTheWay(info *resource.Info, live *unstructured.Unstructured) *OwnershipConflictError {
	conflict := &OwnershipConflictError{Object: reference(info), Seen: ownershipOf(live)}
	switch {
	case info.Namespace == o.release.Namespace:
		conflict.Holder = o.holder(live)
	case o.primary != nil && o.claimed(live) && !o.hasOtherController(live):
		marks := ownerAnnotations(o.release.Namespace, *o.primary)
		conflict.Remedy = fmt.Sprintf("if it belongs to this release, annotate it with %s=%s and %s=%s",
			PrimaryResourceAnnotation, marks[PrimaryResourceAnnotation], PrimaryResourceTypeAnnotation, marks[PrimaryResourceTypeAnnotation])
	}
	return conflict
}

// ownershipOf identifies the ownership of an object: its UID, marks, owner references, and the
// annotations that name an owner.
func ownershipOf(object metav1.Object) string {
	annotations := object.GetAnnotations()
	ownership, err := json.Marshal(struct {
		UID        types.UID
		Manager    string
		Name       string
		Namespace  string
		References []metav1.OwnerReference
		Owner      []string
	}{
		UID:        object.GetUID(),
		Manager:    object.GetLabels()[manifest.ManagedByLabel],
		Name:       annotations[manifest.ReleaseNameAnnotation],
		Namespace:  annotations[manifest.ReleaseNamespaceAnnotation],
		References: object.GetOwnerReferences(),
		Owner:      []string{annotations[PrimaryResourceAnnotation], annotations[PrimaryResourceTypeAnnotation]},
	})
	if err != nil {
		return string(object.GetUID())
	}
	sum := sha256.Sum256(ownership)
	return hex.EncodeToString(sum[:16])
}
