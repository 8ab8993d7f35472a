// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Edit changes or creates an object as another client does, by an update under the field
// manager. The name is "namespace/name" for namespaced kinds.
func (s *Server) Edit(kind, name, manager string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	return s.EditSubresource(kind, name, manager, "", change)
}

// EditSubresource is Edit of a subresource, such as "status".
func (s *Server) EditSubresource(kind, name, manager, subresource string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.keyOf(kind, name)
	groupVersionKind := s.Kinds[key.Resource].Kind
	live := s.objects[key]
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(groupVersionKind)
	object := before.DeepCopy()
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	if live != nil {
		before, object = live.DeepCopy(), live.DeepCopy()
	}
	change(object)
	merged, err := s.fieldManager(groupVersionKind, subresource).Update(before, object, manager)
	if err != nil {
		s.t.Fatalf("edit %s %s: %v", kind, name, err)
	}
	return s.store(key, live, merged.(*unstructured.Unstructured)).DeepCopy()
}

// Apply applies fields of an object as another client does, under the field manager and by force.
// The object exists. Fields that the manager owned before and that are not applied are removed.
func (s *Server) Apply(kind, name, manager string, fields map[string]any) *unstructured.Unstructured {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.keyOf(kind, name)
	groupVersionKind, live := s.Kinds[key.Resource].Kind, s.objects[key]
	applied := &unstructured.Unstructured{Object: fields}
	applied.SetGroupVersionKind(groupVersionKind)
	applied.SetNamespace(key.Namespace)
	applied.SetName(key.Name)
	merged, err := s.fieldManager(groupVersionKind, "").Apply(live.DeepCopy(), applied, manager, true)
	if err != nil {
		s.t.Fatalf("apply %s %s: %v", kind, name, err)
	}
	return s.store(key, live, merged.(*unstructured.Unstructured)).DeepCopy()
}

// Remove deletes an object at once, without regard to its finalizers.
func (s *Server) Remove(kind, name string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.keyOf(kind, name)
	live := s.objects[key]
	if live == nil {
		s.t.Fatalf("remove %s %s: there is none", kind, name)
	}
	s.happened(key, live, nil)
}

// Delete deletes an object as a user does: it stays until its finalizers are removed.
func (s *Server) Delete(kind, name string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.keyOf(kind, name)
	live := s.objects[key]
	if live == nil {
		s.t.Fatalf("delete %s %s: there is none", kind, name)
	}
	if _, err := s.delete(key, live, metav1.DeleteOptions{}); err != nil {
		s.t.Fatalf("delete %s %s: %v", kind, name, err)
	}
}

// Object returns an object; nil for an absent object.
func (s *Server) Object(kind, name string) *unstructured.Unstructured {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if live := s.objects[s.keyOf(kind, name)]; live != nil {
		return live.DeepCopy()
	}
	return nil
}

// Names returns all objects but Helm's release records, sorted: "Kind namespace/name".
func (s *Server) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := []string{}
	for key, object := range s.objects {
		if object.GetLabels()["owner"] != "helm" {
			names = append(names, object.GetKind()+" "+strings.TrimPrefix(key.Namespace+"/"+key.Name, "/"))
		}
	}
	slices.Sort(names)
	return names
}

// HelmRecords returns Helm's release records, sorted: "web.v1 deployed".
func (s *Server) HelmRecords() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := []string{}
	for key, object := range s.objects {
		if object.GetLabels()["owner"] == "helm" {
			records = append(records, strings.TrimPrefix(key.Name, "sh.helm.release.v1.")+" "+object.GetLabels()["status"])
		}
	}
	slices.Sort(records)
	return records
}

// Requests returns all requests that TakeRequests and TakeDiscoveries have not taken.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// TakeRequests returns the requests since the last call, without watches and discovery.
func (s *Server) TakeRequests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := []string{}
	for _, request := range s.requests {
		if request.Verb != "watch" && request.Verb != "discover" {
			requests = append(requests, request.String())
		}
	}
	s.requests = slices.DeleteFunc(s.requests, func(request Request) bool { return request.Verb != "discover" })
	return requests
}

// TakeDiscoveries returns the number of discovery requests since the last call.
func (s *Server) TakeDiscoveries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.requests)
	s.requests = slices.DeleteFunc(s.requests, func(request Request) bool { return request.Verb == "discover" })
	return before - len(s.requests)
}
