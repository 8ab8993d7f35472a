// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// serve answers all requests but watches.
func (s *Server) serve(request Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if request.Verb == "discover" {
		if err := s.refused(request, nil); err != nil {
			return nil, err
		}
		return s.discover(request.Key.Name)
	}
	kind, ok := s.Kinds[request.Key.Resource]
	if !ok {
		// The API server does not know the path.
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, request.Verb, request.Key.Resource.GroupResource(), request.Key.Name,
			"404 page not found", 0, true)
	}
	if request.Verb == "get" && strings.HasSuffix(request.Key.Name, "/log") {
		return "a line of a log", nil
	}
	live := s.objects[request.Key]
	if live == nil && (request.Subresource != "" || slices.Contains([]string{"get", "update", "patch", "delete"}, request.Verb)) {
		return nil, apierrors.NewNotFound(request.Key.Resource.GroupResource(), request.Key.Name)
	}
	switch request.Verb {
	case "get":
		return represent(live, request), nil
	case "list":
		if err := s.refused(request, nil); err != nil {
			return nil, err
		}
		return s.list(request, kind), nil
	case "delete":
		var options metav1.DeleteOptions
		if err := json.Unmarshal(request.Body, &options); len(request.Body) > 0 && err != nil {
			return nil, err
		}
		if err := s.refused(request, nil); err != nil {
			return nil, err
		}
		return s.delete(request.Key, live, options)
	case "deletecollection":
		for key, object := range s.objects {
			if request.selects(key, object) {
				if _, err := s.delete(key, object, metav1.DeleteOptions{}); err != nil {
					return nil, err
				}
			}
		}
		return metav1.Status{Status: metav1.StatusSuccess}, nil
	default:
		return s.change(request, kind, live)
	}
}

// change serves create, update, patch and apply.
func (s *Server) change(request Request, kind Kind, live *unstructured.Unstructured) (any, error) {
	object, err := decode(request, live)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	object.SetGroupVersionKind(kind.Kind)
	object.SetNamespace(request.Key.Namespace)
	key := request.Key
	key.Name = object.GetName()
	if request.Verb == "create" {
		live = s.objects[key]
	}
	if err := s.admit(request, kind, live, object); err != nil {
		return nil, err
	}
	dryRun := request.Query.Has("dryRun")
	if dryRun && request.Verb == "create" {
		return object.Object, strictly(object)
	}
	merged, err := s.merge(request, kind, live, object)
	if err != nil {
		return nil, err
	}
	if s.Validate != nil {
		if err := s.Validate(merged); err != nil {
			return nil, err
		}
	}
	if dryRun {
		return represent(merged, request), nil
	}
	return represent(s.store(key, live, merged), request), nil
}

// admit checks the preconditions of a write, the answer of Refuse, and the size of Secrets.
func (s *Server) admit(request Request, kind Kind, live, object *unstructured.Unstructured) error {
	resource, name := request.Key.Resource.GroupResource(), object.GetName()
	switch version, uid := object.GetResourceVersion(), object.GetUID(); {
	case uid != "" && live == nil:
		return apierrors.NewConflict(resource, name, errors.New("the object has a UID, and no existing object was found"))
	case uid != "" && uid != live.GetUID() && request.Subresource != "status": // A status has no metadata of its own.
		return apierrors.NewInvalid(kind.Kind.GroupKind(), name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable"),
		})
	case live != nil && version != "" && version != live.GetResourceVersion():
		return apierrors.NewConflict(resource, name, errors.New("the object has been modified"))
	}
	if err := s.refused(request, object); err != nil {
		return err
	}
	if len(request.Body) > corev1.MaxSecretSize && resource.Resource == "secrets" {
		return apierrors.NewInvalid(kind.Kind.GroupKind(), name, field.ErrorList{
			field.TooLong(field.NewPath("data"), "", corev1.MaxSecretSize),
		})
	}
	if request.Verb == "create" && live != nil { // The API server validates first.
		return apierrors.NewAlreadyExists(resource, name)
	}
	return nil
}

// refused returns the answer of Refuse.
func (s *Server) refused(request Request, object *unstructured.Unstructured) error {
	if s.Refuse == nil {
		return nil
	}
	return s.Refuse(request, object)
}

// merge returns the result of a write, with its managedFields.
func (s *Server) merge(request Request, kind Kind, live, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	before := live
	if before == nil {
		before = &unstructured.Unstructured{}
		before.SetGroupVersionKind(kind.Kind)
	}
	manager, query := s.fieldManager(kind.Kind, request.Subresource), request.Query
	var merged runtime.Object
	var err error
	if request.Verb == "apply" {
		if err := s.declared(request, object); err != nil {
			return nil, err
		}
		merged, err = manager.Apply(before.DeepCopy(), object, query.Get("fieldManager"), query.Get("force") == "true")
	} else {
		merged, err = manager.Update(before.DeepCopy(), object, cmp.Or(query.Get("fieldManager"), "unknown"))
	}
	if err != nil {
		return nil, err
	}
	result := merged.(*unstructured.Unstructured)
	if request.Subresource == "" || live == nil {
		return result, nil
	}
	whole := live.DeepCopy()
	whole.Object[request.Subresource] = result.Object[request.Subresource]
	whole.SetManagedFields(result.GetManagedFields())
	if s.Prune != nil {
		s.Prune(whole)
	}
	return whole, nil
}

// declared refuses to apply fields of the status that Prune removes, as the API server does for
// fields that the schema of a CRD does not have.
func (s *Server) declared(request Request, object *unstructured.Unstructured) error {
	if request.Subresource != "status" || s.Prune == nil {
		return nil
	}
	pruned := object.DeepCopy()
	s.Prune(pruned)
	kept, _, _ := unstructured.NestedMap(pruned.Object, "status")
	applied, _, _ := unstructured.NestedMap(object.Object, "status")
	for _, name := range slices.Sorted(maps.Keys(applied)) {
		if _, ok := kept[name]; !ok {
			return &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
				Message: fmt.Sprintf("failed to create typed patch object (%s/%s; %s): .status.%s: field not declared in schema",
					object.GetNamespace(), object.GetName(), object.GroupVersionKind(), name),
			}}
		}
	}
	return nil
}

// strictly refuses fields that a built-in kind does not have.
func strictly(object *unstructured.Unstructured) error {
	into, err := clientScheme.New(object.GroupVersionKind())
	if err != nil {
		return nil //nolint:nilerr // The server has schemas of built-in kinds only.
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// decode returns the object of a request, or the live object with a JSON patch applied.
func decode(request Request, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object, body := &unstructured.Unstructured{}, request.Body
	if request.Verb == "patch" {
		whole, err := json.Marshal(live.Object)
		if err != nil {
			return nil, err
		}
		if body, err = patched(whole, request); err != nil {
			return nil, err
		}
	}
	return object, utiljson.Unmarshal(body, &object.Object) // Unlike encoding/json, it keeps integers.
}

// patched returns an object after a JSON patch or a JSON merge patch.
func patched(whole []byte, request Request) ([]byte, error) {
	if request.merges {
		return jsonpatch.MergePatch(whole, request.Body)
	}
	patch, err := jsonpatch.DecodePatch(request.Body)
	if err != nil {
		return nil, err
	}
	return patch.Apply(whole)
}

// store stores the result of a write, and returns the object for the answer. As on an API
// server, a write that changes nothing keeps the resourceVersion.
func (s *Server) store(key Key, live, object *unstructured.Unstructured) *unstructured.Unstructured {
	if live == nil {
		object.SetUID(types.UID(fmt.Sprintf("uid-%d", s.version+1)))
		object.SetCreationTimestamp(metav1.Now())
		if object.Object["spec"] != nil {
			object.SetGeneration(1)
		}
	} else {
		object.SetUID(live.GetUID())
		object.SetCreationTimestamp(live.GetCreationTimestamp())
		object.SetGeneration(live.GetGeneration())
		object.SetDeletionTimestamp(live.GetDeletionTimestamp())
		object.SetResourceVersion(live.GetResourceVersion())
		if sameButTimes(live, object) {
			return live
		}
		if !equality.Semantic.DeepEqual(live.Object["spec"], object.Object["spec"]) ||
			!equality.Semantic.DeepEqual(live.Object["release"], object.Object["release"]) { // All but metadata and status count.
			object.SetGeneration(live.GetGeneration() + 1)
		}
	}
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		s.happened(key, live, nil)
		return object
	}
	s.happened(key, live, object)
	answered := object
	if s.React != nil {
		changed := object.DeepCopy()
		if s.React(changed) {
			s.happened(key, object, changed)
		}
	}
	return answered
}

// sameButTimes compares two objects as the API server does before it writes: other times
// in managedFields are not a change.
func sameButTimes(a, b *unstructured.Unstructured) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, object := range []*unstructured.Unstructured{a, b} {
		managed := object.GetManagedFields()
		for i := range managed {
			managed[i].Time = nil
		}
		object.SetManagedFields(managed)
	}
	return equality.Semantic.DeepEqual(a.Object, b.Object)
}

// delete removes an object, or marks it as deleted while it has finalizers.
func (s *Server) delete(key Key, live *unstructured.Unstructured, options metav1.DeleteOptions) (any, error) {
	if conditions := options.Preconditions; conditions != nil && conditions.UID != nil && *conditions.UID != live.GetUID() {
		return nil, apierrors.NewConflict(key.Resource.GroupResource(), key.Name, errors.New("the UID in the precondition is not the object's"))
	}
	if len(live.GetFinalizers()) == 0 {
		s.happened(key, live, nil)
		return metav1.Status{Status: metav1.StatusSuccess}, nil
	}
	if live.GetDeletionTimestamp() == nil {
		going, now := live.DeepCopy(), metav1.Now()
		going.SetDeletionTimestamp(&now)
		s.happened(key, live, going)
	}
	return s.objects[key], nil
}

// happened commits a change: it counts the version and wakes the watches.
func (s *Server) happened(key Key, before, after *unstructured.Unstructured) {
	s.version++
	if after == nil {
		delete(s.objects, key)
	} else {
		after.SetResourceVersion(strconv.Itoa(s.version))
		s.objects[key] = after
	}
	s.events = append(s.events, event{version: s.version, key: key, before: before, after: after})
	s.wake()
}

// list returns the selected objects.
func (s *Server) list(request Request, kind Kind) any {
	items := []any{}
	byName := func(a, b Key) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) }
	for _, key := range slices.SortedFunc(maps.Keys(s.objects), byName) {
		if object := s.objects[key]; request.selects(key, object) {
			items = append(items, represent(object, request))
		}
	}
	list := map[string]any{
		"apiVersion": kind.Kind.GroupVersion().String(), "kind": kind.Kind.Kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items,
	}
	if request.metadataOnly() {
		list["apiVersion"], list["kind"] = metav1.SchemeGroupVersion.String(), "PartialObjectMetadataList"
	}
	return list
}
