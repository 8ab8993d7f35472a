// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Resource is how the API server serves a kind.
type Resource struct {
	schema.GroupVersionResource

	Namespaced bool
}

// Snapshot has the kinds that the API server served at one time.
type Snapshot struct {
	kinds     map[schema.GroupVersionKind]Resource
	versions  map[schema.GroupVersionResource]bool
	resources map[schema.GroupResource]bool
}

// Discover asks the API server for its kinds. An aggregated API that does not answer is not served.
func Discover(ctx context.Context, client discovery.DiscoveryInterface) (Snapshot, error) {
	_, lists, err := discovery.ServerGroupsAndResourcesWithContext(ctx, discovery.ToDiscoveryInterfaceWithContext(client))
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return Snapshot{}, err
	}
	return NewSnapshot(lists...), nil
}

// NewSnapshot returns the kinds in the lists of a discovery.
func NewSnapshot(lists ...*metav1.APIResourceList) Snapshot {
	s := Snapshot{map[schema.GroupVersionKind]Resource{}, map[schema.GroupVersionResource]bool{}, map[schema.GroupResource]bool{}}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			if strings.Contains(resource.Name, "/") {
				continue // The kind of a subresource may be the kind of another resource.
			}
			name := version.WithResource(resource.Name)
			s.kinds[version.WithKind(resource.Kind)] = Resource{name, resource.Namespaced}
			s.versions[name], s.resources[name.GroupResource()] = true, true
		}
	}
	return s
}

// Resource returns the resource of a kind, and whether the API server serves the kind.
func (s Snapshot) Resource(kind schema.GroupVersionKind) (Resource, bool) {
	resource, ok := s.kinds[kind]
	return resource, ok
}

// Has reports whether the API server serves a resource in its version.
func (s Snapshot) Has(resource schema.GroupVersionResource) bool { return s.versions[resource] }

// HasSome reports whether the API server serves a resource in some version.
func (s Snapshot) HasSome(resource schema.GroupResource) bool { return s.resources[resource] }
