// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"path"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtinKinds are the kinds that a new server serves.
var builtinKinds = map[schema.GroupVersionResource]Kind{
	{Version: "v1", Resource: "configmaps"}:                                                             {schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, true},
	{Version: "v1", Resource: "namespaces"}:                                                             {schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, false},
	{Version: "v1", Resource: "persistentvolumeclaims"}:                                                 {schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}, true},
	{Version: "v1", Resource: "pods"}:                                                                   {schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, true},
	{Version: "v1", Resource: "secrets"}:                                                                {schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, true},
	{Version: "v1", Resource: "services"}:                                                               {schema.GroupVersionKind{Version: "v1", Kind: "Service"}, true},
	{Group: "apps", Version: "v1", Resource: "deployments"}:                                             {schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, true},
	{Group: "apps", Version: "v1", Resource: "statefulsets"}:                                            {schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}, true},
	{Group: "batch", Version: "v1", Resource: "jobs"}:                                                   {schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, true},
	{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}:               {schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, false},
	{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}:                           {schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}, false},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}:                       {schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, false},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}:                                  {schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, true},
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}:                            {schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}, true},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}: {schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}, false},
}

// discover answers requests about the server: its version, groups and kinds.
func (s *Server) discover(where string) (any, error) {
	switch where {
	case "/version":
		return map[string]any{"major": "1", "minor": "36", "gitVersion": "v1.36.3"}, nil
	case "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, nil
	case "/apis":
		groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
		for resource := range s.Kinds {
			known := slices.ContainsFunc(groups.Groups, func(group metav1.APIGroup) bool { return group.Name == resource.Group })
			if resource.Group == "" || known {
				continue
			}
			version := metav1.GroupVersionForDiscovery{GroupVersion: resource.GroupVersion().String(), Version: resource.Version}
			groups.Groups = append(groups.Groups, metav1.APIGroup{
				Name: resource.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
			})
		}
		return groups, nil
	}
	groupVersion := strings.TrimPrefix(strings.TrimPrefix(where, "/apis/"), "/api/")
	resources := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: groupVersion}
	for resource, kind := range s.Kinds {
		if resource.GroupVersion().String() == groupVersion {
			resources.APIResources = append(resources.APIResources, metav1.APIResource{
				Name: resource.Resource, Kind: kind.Kind.Kind, Namespaced: kind.Namespaced,
				Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			})
		}
	}
	if len(resources.APIResources) == 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, where)
	}
	return resources, nil
}

// Serve adds a kind, as a new CRD does.
func (s *Server) Serve(resource schema.GroupVersionResource, kind string, namespaced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Kinds[resource] = Kind{Kind: resource.GroupVersion().WithKind(kind), Namespaced: namespaced}
}

// ServeVersion serves a kind in another version instead, with the same objects, as a CRD that no longer
// has the former version.
func (s *Server) ServeVersion(resource schema.GroupVersionResource, version string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, ok := s.Kinds[resource]
	if !ok {
		s.t.Fatalf("the fake server has no %s", resource)
	}
	delete(s.Kinds, resource)
	other := resource
	other.Version, kind.Kind.Version = version, version
	s.Kinds[other] = kind
	for key, object := range s.objects {
		if key.Resource != resource {
			continue
		}
		delete(s.objects, key)
		key.Resource = other
		object = object.DeepCopy()
		object.SetGroupVersionKind(kind.Kind)
		s.objects[key] = object
	}
}

// resourceOf returns the resource of a kind.
func (s *Server) resourceOf(kind string) (schema.GroupVersionResource, Kind) {
	s.t.Helper()
	for resource, served := range s.Kinds {
		if served.Kind.Kind == kind {
			return resource, served
		}
	}
	s.t.Fatalf("the fake server has no kind %s", kind)
	return schema.GroupVersionResource{}, Kind{}
}

// keyOf returns the key of an object. Namespaced kinds have names like "default/web".
func (s *Server) keyOf(kind, name string) Key {
	s.t.Helper()
	resource, served := s.resourceOf(kind)
	key := Key{Resource: resource, Name: path.Base(name)}
	if served.Namespaced {
		key.Namespace = path.Dir(name)
	}
	return key
}
