// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

// Build implements kube.Interface. Helm requests validation for the manifests that it is about to
// apply. Then each object must have a served kind; the API server validates the rest during the
// apply. Other manifests belong to older revisions, or, in an install, are the files under crds/.
// An older revision is built with the versions that are served, and without objects of kinds that
// are not served at all: these must not fail an upgrade or uninstall.
func (o *operation) Build(reader io.Reader, validate bool) (kube.ResourceList, error) {
	text, err := io.ReadAll(reader)
	if err != nil {
		return nil, o.note(err)
	}
	build := o.former
	switch {
	case validate:
		o.rendering.Pause() // The manifest is rendered.
		build = o.next
	case o.installing != "":
		build = o.buildCRDs
	}
	list, err := build(string(text))
	return list, o.note(err)
}

// next builds the next manifest to apply. It refuses objects that no attempt could apply, before it
// sends a request. The error names all of them.
func (o *operation) next(text string) (kube.ResourceList, error) {
	if err := o.keepShutdown(text); err != nil {
		return nil, o.invalid(err)
	}
	list, err := o.buildChecked(text, manifest.CheckMetadata)
	if unserved := (*unservedError)(nil); isExcluded(err) && errors.As(err, &unserved) && unserved.served.Empty() {
		return nil, fmt.Errorf("%w: install the kind's CRD first, CRDs in templates come too late for objects of the same chart", err)
	}
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(checkObjects(list), o.review(list)); err != nil {
		return nil, o.invalid(err)
	}
	return list, nil
}

// invalid returns the error of a manifest that cannot be applied.
func (o *operation) invalid(err error) error {
	return &RenderError{Chart: cmp.Or(o.chart, o.release.Name), Err: err}
}

// former builds the manifest of an older revision, to find and to remove its objects. It finds them
// in any version that is served. It leaves out objects that are not served, out of scope or without
// a valid name. These objects are not changed.
func (o *operation) former(text string) (kube.ResourceList, error) {
	list, err := o.buildWith(text, unchecked, o.engine.mapper.MappingInAnyVersion)
	list = slices.DeleteFunc(list, func(info *resource.Info) bool { return !manifest.IsName(info.Name) })
	if isExcluded(err) {
		o.leaveExcluded(err)
		o.logger.Warn("Left out objects of the release that are not served or out of scope", slog.Any("err", shortened(err)))
		return list, nil
	}
	return list, err
}

// isExcluded reports whether the error is about objects that a manifest can be built
// without: not served or out of scope.
func isExcluded(err error) bool {
	var (
		outside *OutOfScopeError
		render  *RenderError
	)
	return !errors.As(err, &render) && (meta.IsNoMatchError(err) || errors.As(err, &outside))
}

// build parses a manifest. If objects are not served or out of scope, it returns an error
// and also the other objects.
func (o *operation) build(text string) (kube.ResourceList, error) {
	return o.buildChecked(text, unchecked)
}

// unchecked is the check of manifests that are not checked.
func unchecked(*unstructured.Unstructured) []error { return nil }

// buildChecked parses a manifest whose objects can be applied. It returns the errors of check for
// all objects, the errors for objects that are not served or out of scope, and the remaining
// objects.
func (o *operation) buildChecked(text string, check func(*unstructured.Unstructured) []error) (kube.ResourceList, error) {
	return o.buildWith(text, check, o.engine.mapper.Mapping)
}

// mapping returns how to ask for the objects of a kind.
type mapping func(schema.GroupVersionKind) (*meta.RESTMapping, error)

// buildWith is buildChecked with the mapping of each kind.
func (o *operation) buildWith(text string, check func(*unstructured.Unstructured) []error, mapped mapping) (kube.ResourceList, error) {
	documents, err := o.documents(text)
	if err != nil {
		return nil, o.invalid(err)
	}
	var list kube.ResourceList
	var refused refusals
	invalid := false
	for _, document := range documents {
		source, before := manifest.Source(document), len(list)
		for _, object := range document.Objects {
			if errs := check(object); len(errs) > 0 {
				refused.add(source, errs...)
				invalid = true
				continue
			}
			if err := o.flatten(object.DeepCopy(), mapped, &list); isExcluded(err) {
				refused.add(source, err)
			} else if err != nil {
				return nil, err
			}
		}
		for _, info := range list[before:] {
			info.Source = source
		}
	}
	if invalid {
		return nil, o.invalid(refused.err())
	}
	return list, refused.err()
}

// flatten appends an object, or the items of a List. An item that is not served or out of
// scope is an error that does not leave out the other items.
func (o *operation) flatten(object *unstructured.Unstructured, mapped mapping, list *kube.ResourceList) error {
	if object.IsList() {
		var refused refusals
		err := object.EachListItem(func(item runtime.Object) error {
			child, ok := item.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("item of %s: unexpected %T", object.GetKind(), item)
			}
			err := o.flatten(child, mapped, list)
			if isExcluded(err) {
				refused.add("", err)
				return nil
			}
			return err
		})
		return cmp.Or(err, refused.err())
	}
	if err := manifest.CheckType(object); err != nil {
		return o.invalid(fmt.Errorf("%s: %w", manifest.Title(object), err))
	}
	if manifest.ReadTexts(object) && manifest.IsKept(object) && o.isController(object) {
		object.SetOwnerReferences(withoutController(object)) // See disownKept.
	}
	mapping, err := mapped(object.GroupVersionKind())
	if meta.IsNoMatchError(err) {
		return o.unserved(object, err)
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
	}
	namespace := ""
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if object.GetNamespace() == "" {
			object.SetNamespace(o.release.Namespace)
		}
		namespace = object.GetNamespace()
	}
	info := &resource.Info{
		Client: o.existence, Mapping: mapping, Namespace: namespace, Name: object.GetName(), Object: object,
	}
	if !o.bounds.Allow(namespace) {
		return o.outOfScope(reference(info))
	}
	list.Append(info)
	return nil
}

// unservedError means that the API server does not serve an object's kind in its version.
type unservedError struct {
	object ObjectReference
	// served is a version in which the kind is served; empty if no version is served.
	served schema.GroupVersion
	err    error
}

// Error implements error.
func (e *unservedError) Error() string {
	text := fmt.Sprintf("%s %q: %v", e.object.Kind, e.object.Name, e.err)
	if e.served.Empty() {
		return text
	}
	return fmt.Sprintf("%s: the API server serves the kind as %s: set this apiVersion in the chart", text, e.served)
}

// Unwrap returns the error of the mapping.
func (e *unservedError) Unwrap() error { return e.err }

// unserved returns the error about an object whose kind is not served in its version.
func (o *operation) unserved(object *unstructured.Unstructured, err error) error {
	unserved := &unservedError{err: err, object: ObjectReference{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
	}}
	if other, err := o.engine.mapper.MappingInAnyVersion(object.GroupVersionKind()); err == nil {
		unserved.served = other.GroupVersionKind.GroupVersion()
	} else if !meta.IsNoMatchError(err) {
		return fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
	}
	return unserved
}

// outOfScope returns the error about an object that the release may not have.
func (o *operation) outOfScope(object ObjectReference) error {
	if o.bounds.Scope == ScopeCluster {
		return &OutOfScopeError{Object: object, Namespaces: o.bounds.Namespaces}
	}
	return &OutOfScopeError{Object: object, Namespaces: []string{o.release.Namespace}}
}

func content(info *resource.Info) (*unstructured.Unstructured, error) {
	object, ok := info.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%s: unexpected %T", reference(info), info.Object)
	}
	return object, nil
}

func reference(info *resource.Info) ObjectReference {
	apiVersion, kind := info.Mapping.GroupVersionKind.ToAPIVersionAndKind()
	return ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: info.Namespace, Name: info.Name}
}

// buildCRDs builds a file under crds/, after it has checked all of them. A CRD of a version that
// the API server does not serve is a terminal error. A missing kind of another API group may still
// appear.
func (o *operation) buildCRDs(text string) (kube.ResourceList, error) {
	if err := o.checkCRDs(); err != nil {
		return nil, err
	}
	list, err := o.build(text)
	var unserved *meta.NoKindMatchError
	if !errors.As(err, &unserved) {
		return list, err
	}
	err = fmt.Errorf("crds/: %w", err)
	if unserved.GroupKind == crdKind {
		err = fmt.Errorf("%w: convert the file to a version of %s that the API server serves", err, crdKind.Group)
		return nil, &RenderError{Chart: o.installing, Err: err}
	}
	return nil, err
}
