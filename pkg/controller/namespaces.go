// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/message"
	"github.com/example/demoapp-controller/pkg/metacache"
)

// Namespaces shows the metadata of a Namespace that matters to all objects in it. A nil *Namespaces
// knows nothing about any namespace: the operator may not watch Namespaces.
type Namespaces struct {
	informer cache.SharedIndexInformer
}

// NewNamespaces returns all Namespaces, and the informer of their metadata, which the caller runs.
func NewNamespaces(client metadata.Interface) (*Namespaces, cache.SharedIndexInformer, error) {
	informer, err := metacache.NewInformer(nil, client, corev1.SchemeGroupVersion.WithResource("namespaces"), metav1.NamespaceAll, nil, keepNamespace)
	return &Namespaces{informer}, informer, err
}

// keepNamespace drops the metadata that Namespaces does not show.
func keepNamespace(whole *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	kept := metacache.Identity(whole)
	kept.DeletionTimestamp = whole.DeletionTimestamp
	if EnforcesRestricted(whole) {
		kept.Labels = map[string]string{podSecurity: restricted}
	}
	if IsPaused(whole) {
		kept.Annotations = map[string]string{apimeta.AnnotationPaused: "true", apimeta.AnnotationPausedReason: PausedReason(whole)}
	}
	return kept
}

// podSecurity is the label with the Pod Security level that a Namespace enforces, and restricted the
// strictest one: https://kubernetes.io/docs/concepts/security/pod-security-admission/.
const podSecurity, restricted = "pod-security.kubernetes.io/enforce", "restricted"

// EnforcesRestricted reports whether a Namespace enforces the restricted Pod Security level.
func EnforcesRestricted(namespace metav1.Object) bool {
	return namespace.GetLabels()[podSecurity] == restricted
}

// EnforcesRestricted reports whether a Namespace enforces the restricted Pod Security level. known is
// false while the cache lacks the Namespace: its appearance calls the functions of Watch. A nil
// *Namespaces reports that all of them do, because pods that meet the level run anywhere.
func (n *Namespaces) EnforcesRestricted(namespace string) (enforced, known bool) {
	if n == nil {
		return true, true
	}
	found := n.get(namespace)
	return found != nil && EnforcesRestricted(found), found != nil
}

// maxPausedReason is the maximum length, in bytes, of the reason of a pause in a message.
const maxPausedReason = 256

// PausedReason returns why an object is paused, as its annotation says: one short line without
// control characters, because a message repeats it. It is empty without the annotation.
func PausedReason(object metav1.Object) string {
	// The part that Truncate would drop is not processed.
	text, _ := message.Beginning(object.GetAnnotations()[apimeta.AnnotationPausedReason], 4*maxPausedReason)
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	return message.Line(text, maxPausedReason)
}

// IsPaused reports whether an object has the annotation that pauses it.
func IsPaused(object metav1.Object) bool {
	paused, err := strconv.ParseBool(object.GetAnnotations()[apimeta.AnnotationPaused])
	return err == nil && paused
}

// IsPaused reports whether a Namespace has the annotation that pauses all objects in it.
func (n *Namespaces) IsPaused(namespace string) bool {
	found := n.get(namespace)
	return found != nil && IsPaused(found)
}

// IsTerminating reports whether a namespace is being deleted, as far as the cache shows.
func (n *Namespaces) IsTerminating(namespace string) bool {
	found := n.get(namespace)
	return found != nil && found.DeletionTimestamp != nil
}

// PausedReason returns the [PausedReason] of a Namespace.
func (n *Namespaces) PausedReason(namespace string) string {
	if found := n.get(namespace); found != nil {
		return PausedReason(found)
	}
	return ""
}

// UID returns the UID of a Namespace; empty if it is not known.
func (n *Namespaces) UID(namespace string) types.UID {
	if found := n.get(namespace); found != nil {
		return found.UID
	}
	return ""
}

func (n *Namespaces) get(namespace string) *metav1.PartialObjectMetadata {
	if n == nil {
		return nil
	}
	found, exists, err := n.informer.GetStore().GetByKey(namespace)
	if err != nil || !exists {
		return nil
	}
	return found.(*metav1.PartialObjectMetadata)
}

// Watch calls changed with the name of each namespace that appears, that is paused, resumed or being
// deleted, or that begins or ends to enforce the restricted Pod Security level, from now on, until the returned function is called. The cache must sync before the
// first pass over an object. Watch of a nil *Namespaces calls nothing.
func (n *Namespaces) Watch(changed func(namespace string)) (synced []NamedSync, stop func(), err error) {
	if n == nil {
		return nil, func() {}, nil
	}
	registration, err := cache.NewTypedSharedIndexInformer[*metav1.PartialObjectMetadata](n.informer).
		AddTypedEventHandler(namespaceHandler(changed), cache.HandlerOptions{ResyncPeriod: new(time.Duration)})
	if err != nil {
		return nil, nil, fmt.Errorf("watch Namespaces: %w", err)
	}
	stop = func() { _ = n.informer.RemoveEventHandler(registration) } // The handler is one of the informer's.
	return []NamedSync{{Name: "namespaces", HasSynced: registration.HasSynced}}, stop, nil
}

type namespaceHandler func(namespace string)

// OnAdd implements cache.TypedResourceEventHandler. No pass over an object precedes the initial
// list. Later, the watch of a kind may show an object of a new namespace before the namespace.
func (h namespaceHandler) OnAdd(namespace *metav1.PartialObjectMetadata, isInitial bool) {
	if !isInitial {
		h(namespace.Name)
	}
}

// OnUpdate implements cache.TypedResourceEventHandler.
func (h namespaceHandler) OnUpdate(before, after *metav1.PartialObjectMetadata) {
	if IsPaused(before) != IsPaused(after) || PausedReason(before) != PausedReason(after) || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		EnforcesRestricted(before) != EnforcesRestricted(after) {
		h(after.Name)
	}
}

// OnDelete implements cache.TypedResourceEventHandler. The namespace has no objects any more.
func (h namespaceHandler) OnDelete(cache.DeletedObject[*metav1.PartialObjectMetadata]) {}
