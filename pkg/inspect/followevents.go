// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// FollowEvents calls changed with each event of a tree, and again after each change of the event,
// until ctx ends or changed returns an error. Objects that join the tree later are included. Calls
// do not overlap. It follows the namespaces that the tree has now.
func (c *Cluster) FollowEvents(ctx context.Context, root *Node, changed func(corev1.Event) error) error {
	f := family{cluster: c, members: map[types.UID]bool{}}
	namespaces := map[string]bool{}
	root.All(func(node *Node) bool {
		if node.Object != nil {
			f.members[node.Object.GetUID()] = true
			namespaces[cmp.Or(node.Namespace, metav1.NamespaceDefault)] = true
		}
		return true
	})
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for namespace := range namespaces {
		what := Followed{Kind: corev1.SchemeGroupVersion.WithKind("Event"), Namespace: namespace}
		group.Go(func() error {
			return c.FollowObjects(ctx, what, func(object *unstructured.Unstructured, deleted bool) {
				var event corev1.Event
				if deleted || runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &event) != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if f.has(ctx, event.InvolvedObject) {
					if err := changed(event); err != nil {
						stop(err)
					}
				}
			})
		})
	}
	return group.Wait()
}

// family knows which objects belong to a tree. An object belongs to it if one of its owners does.
type family struct {
	cluster *Cluster
	// members says of each known object whether it belongs to the tree.
	members map[types.UID]bool
}

// maxFamily is the number of known objects. A namespace may have any number of objects with events.
const maxFamily = 10_000

// has reports whether an object belongs to the tree. It reads the metadata of an unknown object and
// of its owners once.
func (f family) has(ctx context.Context, object corev1.ObjectReference) bool {
	if isMember, known := f.members[object.UID]; known || len(f.members) >= maxFamily {
		return isMember
	}
	isMember := f.descends(ctx, ReferenceFrom(object), object.UID, maxDepth)
	f.members[object.UID] = isMember
	return isMember
}

// ReferenceFrom returns the reference of an object that an event names.
func ReferenceFrom(object corev1.ObjectReference) Reference {
	return Reference{object.GroupVersionKind(), object.Namespace, object.Name}
}

// descends reports whether an object, or one of its owners, is a member. An object that cannot be
// read is not a descendant.
func (f family) descends(ctx context.Context, object Reference, uid types.UID, depth int) bool {
	mapping, err := f.cluster.Mapper.RESTMapping(object.GroupKind(), object.Version)
	if err != nil || depth == 0 {
		return false
	}
	live, err := f.cluster.Metadata.Resource(mapping.Resource).Namespace(namespaceFor(mapping, object.Namespace)).Get(ctx, object.Name, metav1.GetOptions{})
	if err != nil || live.UID != uid {
		return false
	}
	for _, owner := range live.OwnerReferences {
		if isMember, known := f.members[owner.UID]; known {
			if isMember {
				return true
			}
			continue
		}
		up := Reference{schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind), object.Namespace, owner.Name}
		if f.descends(ctx, up, owner.UID, depth-1) {
			return true
		}
	}
	return false
}
