// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// Clientset is implemented by generated fake clientsets, and by the fake dynamic and
// metadata clients.
type Clientset interface {
	PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
	Tracker() clienttesting.ObjectTracker
}

// Stamp makes clientset answer writes as an API server does:
//
//   - a new object gets a UID, a creationTimestamp and, if its kind has one, generation 1;
//   - a write that changes the object increases its resourceVersion;
//   - a change outside of metadata and status increases its generation;
//   - a write with another resourceVersion or UID gets a conflict, and an apply with
//     resourceVersion 1 only creates. A write of a status ignores the UID, as for custom
//     resources;
//   - the status is written only through the subresource "status";
//   - the deletion of an object with finalizers sets its deletionTimestamp. The object
//     is deleted when its last finalizer is removed.
//
// Call Stamp once, before objects are created. Objects that were passed to the
// clientset's constructor are not changed. Watches receive two updates for an apply
// to an existing object. The first update is without stamps.
func Stamp(clientset Clientset) {
	s := &server{tracker: clientset.Tracker()}
	for _, verb := range []string{"create", "update", "patch", "delete"} {
		clientset.PrependReactor(verb, "*", s.react)
	}
}

// server is the state of one fake API server.
type server struct {
	tracker clienttesting.ObjectTracker

	mu   sync.Mutex
	last int64
}

// react runs one request at a time against the tracker.
func (s *server) react(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &request{ObjectTracker: s.tracker, server: s, subresource: action.GetSubresource()}
	handled, obj, err := clienttesting.ObjectReaction(r)(action)
	if r.result != nil {
		return true, r.result.DeepCopyObject(), nil
	}
	return handled, obj, err
}

func (s *server) next() string {
	s.last++
	return strconv.FormatInt(s.last, 10)
}

// request is the object tracker of one request.
type request struct {
	clienttesting.ObjectTracker
	server      *server
	subresource string
	// result is the object after a successful write, also after its removal.
	result runtime.Object
}

// Create implements clienttesting.ObjectTracker.
func (r *request) Create(
	gvr schema.GroupVersionResource, obj runtime.Object, ns string, opts ...metav1.CreateOptions,
) error {
	obj = obj.DeepCopyObject()
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	if accessor.GetResourceVersion() != "" {
		return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	r.stampNew(gvr, accessor)
	if err := r.ObjectTracker.Create(gvr, obj, ns, opts...); err != nil {
		return err
	}
	r.result, err = r.Get(gvr, ns, accessor.GetName())
	return err
}

// Update implements clienttesting.ObjectTracker.
func (r *request) Update(
	gvr schema.GroupVersionResource, obj runtime.Object, ns string, opts ...metav1.UpdateOptions,
) error {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	live, err := r.Get(gvr, ns, accessor.GetName())
	if err != nil {
		return err
	}
	return r.replace(gvr, ns, live, obj, opts...)
}

// Patch implements clienttesting.ObjectTracker. patched is the live object after the
// patch.
func (r *request) Patch(
	gvr schema.GroupVersionResource, patched runtime.Object, ns string, opts ...metav1.PatchOptions,
) error {
	return r.Update(gvr, patched, ns, updateOptions(opts))
}

// Apply implements clienttesting.ObjectTracker.
func (r *request) Apply(
	gvr schema.GroupVersionResource, config runtime.Object, ns string, opts ...metav1.PatchOptions,
) error {
	accessor, err := meta.Accessor(config)
	if err != nil {
		return err
	}
	live, err := r.Get(gvr, ns, accessor.GetName())
	switch {
	case apierrors.IsNotFound(err) && r.subresource == "":
		if uid := accessor.GetUID(); uid != "" {
			return apierrors.NewConflict(gvr.GroupResource(), accessor.GetName(),
				fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
		}
		r.stampNew(gvr, accessor)
		if err := r.ObjectTracker.Apply(gvr, config, ns, opts...); err != nil {
			return err
		}
		r.result, err = r.Get(gvr, ns, accessor.GetName())
		return err
	case err != nil:
		return err
	case accessor.GetResourceVersion() == neverResourceVersion && r.subresource == "":
		return apierrors.NewConflict(gvr.GroupResource(), accessor.GetName(), errors.New("the object exists"))
	}
	uid := accessor.GetUID()
	if r.subresource == "status" {
		uid = ""
	}
	if err := checkPreconditions(gvr, live, uid, accessor.GetResourceVersion()); err != nil {
		return err
	}
	if err := r.ObjectTracker.Apply(gvr, config, ns, opts...); err != nil {
		return err
	}
	applied, err := r.Get(gvr, ns, accessor.GetName())
	if err != nil {
		return err
	}
	return r.replace(gvr, ns, live, applied, updateOptions(opts))
}

// Delete implements clienttesting.ObjectTracker.
func (r *request) Delete(gvr schema.GroupVersionResource, ns, name string, opts ...metav1.DeleteOptions) error {
	live, err := r.Get(gvr, ns, name)
	if err != nil {
		return err
	}
	for _, o := range opts {
		if o.Preconditions == nil {
			continue
		}
		if err := checkPreconditions(gvr, live,
			deref(o.Preconditions.UID), deref(o.Preconditions.ResourceVersion)); err != nil {
			return err
		}
	}
	accessor, err := meta.Accessor(live)
	if err != nil {
		return err
	}
	if len(accessor.GetFinalizers()) == 0 {
		return r.ObjectTracker.Delete(gvr, ns, name, opts...)
	}
	if accessor.GetDeletionTimestamp() != nil {
		return nil
	}
	now := metav1.Now().Rfc3339Copy()
	accessor.SetDeletionTimestamp(&now)
	accessor.SetDeletionGracePeriodSeconds(new(int64))
	if hasGeneration(gvr) {
		accessor.SetGeneration(accessor.GetGeneration() + 1)
	}
	accessor.SetResourceVersion(r.server.next())
	return r.ObjectTracker.Update(gvr, live, ns)
}

// neverResourceVersion is the version in an apply which may only create, see pkg/ssa.
const neverResourceVersion = "1"

// withoutGeneration are the groups whose kinds have no generation, but for the given
// resources.
var withoutGeneration = map[string][]string{
	"":                          {"pods", "podtemplates", "replicationcontrollers"},
	"coordination.k8s.io":       nil,
	"events.k8s.io":             nil,
	"rbac.authorization.k8s.io": nil,
	"storage.k8s.io":            nil,
	"discovery.k8s.io":          {"endpointslices"},
	"scheduling.k8s.io":         {"priorityclasses"},
}

func hasGeneration(gvr schema.GroupVersionResource) bool {
	exceptions, without := withoutGeneration[gvr.Group]
	return !without || slices.Contains(exceptions, gvr.Resource)
}

func (r *request) stampNew(gvr schema.GroupVersionResource, accessor metav1.Object) {
	version := r.server.next()
	accessor.SetUID(types.UID("uid-" + version))
	accessor.SetResourceVersion(version)
	accessor.SetGeneration(0)
	if hasGeneration(gvr) {
		accessor.SetGeneration(1)
	}
	accessor.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	accessor.SetDeletionTimestamp(nil)
}

// replace replaces live by obj. It ignores the parts of obj that the request cannot
// change.
func (r *request) replace(
	gvr schema.GroupVersionResource, ns string, live, obj runtime.Object, opts ...metav1.UpdateOptions,
) error {
	before, err := meta.Accessor(live)
	if err != nil {
		return err
	}
	obj, err = r.permitted(live, obj)
	if err != nil {
		return err
	}
	after, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	if err := checkPreconditions(gvr, live, after.GetUID(), after.GetResourceVersion()); err != nil {
		return err
	}
	for _, finalizer := range after.GetFinalizers() {
		if before.GetDeletionTimestamp() != nil && !slices.Contains(before.GetFinalizers(), finalizer) {
			return apierrors.NewForbidden(gvr.GroupResource(), after.GetName(),
				errors.New("no new finalizers can be added if the object is being deleted"))
		}
	}
	keepSystemFields(before, after)
	changed, specChanged, err := compare(live, obj)
	if err != nil {
		return err
	}
	r.result = obj
	if !changed {
		return nil
	}
	if specChanged && hasGeneration(gvr) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	after.SetResourceVersion(r.server.next())
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		return r.ObjectTracker.Delete(gvr, ns, after.GetName())
	}
	if err := r.ObjectTracker.Update(gvr, obj, ns, opts...); err != nil {
		r.result = nil
		return err
	}
	r.result, err = r.Get(gvr, ns, after.GetName())
	return err
}

// keepSystemFields restores the metadata that clients cannot change.
func keepSystemFields(before, after metav1.Object) {
	after.SetUID(before.GetUID())
	after.SetResourceVersion(before.GetResourceVersion())
	after.SetGeneration(before.GetGeneration())
	after.SetCreationTimestamp(before.GetCreationTimestamp())
	after.SetDeletionTimestamp(before.GetDeletionTimestamp())
	after.SetDeletionGracePeriodSeconds(before.GetDeletionGracePeriodSeconds())
}

// permitted returns obj with the parts of live that the request cannot change. On
// the subresource "status", these are all parts except the status. Otherwise, it is
// the status.
func (r *request) permitted(live, obj runtime.Object) (runtime.Object, error) {
	old, err := content(live)
	if err != nil {
		return nil, err
	}
	desired, err := content(obj)
	if err != nil {
		return nil, err
	}
	from, to := old, desired
	if r.subresource == "status" {
		// resourceVersion in the request is a precondition.
		metadata, _ := old["metadata"].(map[string]any)
		given, _ := desired["metadata"].(map[string]any)
		for _, field := range []string{"resourceVersion", "managedFields"} {
			metadata[field] = given[field]
		}
		from, to = desired, old
	}
	if status, ok := from["status"]; ok {
		to["status"] = status
	} else {
		delete(to, "status")
	}
	return fromContent(to, obj)
}

// compare reports whether obj differs from live, and whether it differs outside of
// metadata and status.
func compare(live, obj runtime.Object) (changed, specChanged bool, err error) {
	before, err := content(live)
	if err != nil {
		return false, false, err
	}
	after, err := content(obj)
	if err != nil {
		return false, false, err
	}
	for _, c := range []map[string]any{before, after} {
		unstructured.RemoveNestedField(c, "metadata", "managedFields")
	}
	changed = !apiequality.Semantic.DeepEqual(before, after)
	for _, c := range []map[string]any{before, after} {
		delete(c, "metadata")
		delete(c, "status")
	}
	return changed, !apiequality.Semantic.DeepEqual(before, after), nil
}

func checkPreconditions(
	gvr schema.GroupVersionResource, live runtime.Object, uid types.UID, resourceVersion string,
) error {
	accessor, err := meta.Accessor(live)
	if err != nil {
		return err
	}
	var mismatch error
	switch {
	case uid != "" && uid != accessor.GetUID():
		mismatch = fmt.Errorf("the UID in the precondition (%s) is not that of the object (%s)", uid, accessor.GetUID())
	case resourceVersion != "" && resourceVersion != accessor.GetResourceVersion():
		mismatch = errors.New("the object has been modified; please apply your changes to the latest version")
	default:
		return nil
	}
	return apierrors.NewConflict(gvr.GroupResource(), accessor.GetName(), mismatch)
}

// content returns a copy of obj as a map. It copies obj first, because the converter
// returns the map of an unstructured object itself.
func content(obj runtime.Object) (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj.DeepCopyObject())
}

// fromContent converts c to an object of the type of like.
func fromContent(c map[string]any, like runtime.Object) (runtime.Object, error) {
	if _, ok := like.(*unstructured.Unstructured); ok {
		return &unstructured.Unstructured{Object: c}, nil
	}
	obj, ok := reflect.New(reflect.TypeOf(like).Elem()).Interface().(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not a pointer to an API object", like)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c, obj); err != nil {
		return nil, err
	}
	return obj, nil
}

func updateOptions(opts []metav1.PatchOptions) (update metav1.UpdateOptions) {
	for _, o := range opts {
		update.FieldManager = o.FieldManager
	}
	return update
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
