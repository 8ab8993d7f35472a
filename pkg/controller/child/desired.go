// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// Desired is a desired child: an apply configuration of client-go or of pkg/generated. An apply
// configuration has only the fields that its author sets, so the operator owns no further fields.
// The child is in the namespace of its owner.
type Desired interface {
	GetKind() *string
	GetAPIVersion() *string
	GetName() *string
}

// onceOnly is a child that is created once.
type onceOnly struct{ Desired }

// Once marks a child that is created when it is missing and never changed afterwards, for example a
// Secret with a generated password. An existing object with that name and without a controller,
// which a user created, is used without changes. The argument may differ in each pass.
func Once(desired Desired) Desired { return onceOnly{desired} }

// retained is a child that is not written while stays returns true.
type retained struct {
	Desired

	stays func(got *Observed) bool
}

// RetainIf marks a child that is not written if stays returns true, for example because its rollout
// is blocked. stays gets the observed child, or nil if the child is missing. A missing child is
// then not created. An existing child is neither changed nor deleted, and is in [State].
func RetainIf(desired Desired, stays func(got *Observed) bool) Desired {
	return retained{desired, stays}
}

// Retain marks a child that is never written.
func Retain(desired Desired) Desired {
	return RetainIf(desired, func(*Observed) bool { return true })
}

// keeping is a child that keeps another template until its owner changes.
type keeping struct {
	Desired

	was Desired
}

// KeepUntilChange marks a child that keeps the pod template of was, if it has it, until its owner
// changes. was is the desired state of the owner in other circumstances, or of an earlier version
// of the operator.
func KeepUntilChange(desired, was Desired) Desired { return keeping{desired, was} }

// companion is a child of which a part stays while pods keep their template.
type companion struct {
	Desired

	pods id
	path []string
	// free are the keys below the path that do not stay.
	free []string
}

// KeepWithPods marks a ConfigMap that pods of another child mount, which is a StatefulSet. While
// the StatefulSet keeps the template of an earlier operator, its pods keep the data that belong to that
// template. The free keys are written at once. The template of the StatefulSet must change whenever the
// other data change, for example by an annotation with a digest of them.
func KeepWithPods(configMap Desired, statefulSet string, free ...string) Desired {
	return companion{configMap, id{"StatefulSet", statefulSet}, []string{"data"}, free}
}

// id identifies a child of an owner.
type id struct{ kind, name string }

func idOf(desired Desired) id { return id{*desired.GetKind(), *desired.GetName()} }

func (i id) String() string { return i.kind + "/" + i.name }

func (i id) childName() childv1alpha1.ChildName { return childv1alpha1.ChildName(i.String()) }

// desiredChild is a desired child in the form of its apply request.
type desiredChild struct {
	id
	gvk    schema.GroupVersionKind
	object *unstructured.Unstructured
	// digest is the digest of the object, without the values of a Secret.
	digest string
	// values authenticates the values of a Secret, by key.
	values map[string][sha256.Size]byte
	once   bool
	// invalid is the terminal error of a child that cannot be sent. notes has one line for each part
	// of the child that is not sent.
	invalid error
	notes   []string
	// parts has the digests of a child with a template; zero for other children.
	parts
	// stays is the argument of RetainIf. It is nil for a child that is not retained.
	stays func(got *Observed) bool
	// was is the argument of KeepUntilChange; nil without it.
	was Desired
	// with is a child of KeepWithPods; nil for other children.
	with *companion
}

// isRetained reports whether a child must not be written. got is the observed child, or nil.
func (d desiredChild) isRetained(got *Observed) bool { return d.stays != nil && d.stays(got) }

// Rendered is a desired child as the operator applies it under FieldManager.
type Rendered struct {
	Object *unstructured.Unstructured
	// Once says that an existing child is never changed, see [Once]. Retained says that it may stay
	// as it is, see [RetainIf].
	Once, Retained bool
}

// Render returns the desired children of an owner without a Set, for a comparison with the cluster.
func Render(owner metav1.Object, kind schema.GroupVersionKind, desired ...Desired) ([]Rendered, error) {
	rendered := make([]Rendered, 0, len(desired))
	for _, d := range desired {
		child, err := prepare(owner, kind, d)
		if err != nil {
			return nil, err
		}
		rendered = append(rendered, Rendered{Object: child.object, Once: child.once, Retained: child.stays != nil})
	}
	return rendered, nil
}

// prepare adds the namespace, the label and the owner reference to a desired child.
func prepare(owner metav1.Object, ownerKind schema.GroupVersionKind, desired Desired) (desiredChild, error) {
	kept, isKept := desired.(retained)
	if isKept {
		desired = kept.Desired
	}
	former, _ := desired.(keeping)
	if former.was != nil {
		desired = former.Desired
	}
	with, isCompanion := desired.(companion)
	if isCompanion {
		desired = with.Desired
	}
	inner, once := desired.(onceOnly)
	if once {
		desired = inner.Desired
	}
	data, err := json.Marshal(desired)
	if err != nil {
		return desiredChild{}, fmt.Errorf("encode a child: %w", err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		return desiredChild{}, fmt.Errorf("encode a child: %w", err)
	}
	object.SetNamespace(owner.GetNamespace())
	object.SetOwnerReferences([]metav1.OwnerReference{Reference(owner, ownerKind.GroupVersion().String(), ownerKind.Kind)})
	// GetLabels would drop all labels if one of them is not a text.
	labels, _, err := unstructured.NestedNullCoercingStringMap(object.Object, "metadata", "labels")
	if err != nil {
		return desiredChild{}, fmt.Errorf("encode a child: %w", err)
	}
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ManagedByLabel] = FieldManager
	object.SetLabels(labels)
	child := desiredChild{
		id: id{object.GetKind(), object.GetName()}, gvk: object.GroupVersionKind(), object: ssa.Prepare(object),
		once: once, stays: kept.stays, was: former.was,
	}
	if isCompanion {
		child.with = &with
	}
	notes, errs := ssa.Check(object)
	for _, note := range notes {
		child.notes = append(child.notes, fmt.Sprintf("%s: %s", Named(child.kind, child.name), note))
	}
	if len(errs) > 0 {
		child.invalid = controller.Terminal(&RefusedError{Object: Named(child.kind, child.name), Err: errs[0]})
	}
	if once {
		return child, nil
	}
	child.digest, child.values, err = digestOf(child.object)
	return child, err
}

// digestOf returns the digest of an object. The status shows the digest, so it does not cover the
// values of a Secret, which are returned separately.
func digestOf(object *unstructured.Unstructured) (string, map[string][sha256.Size]byte, error) {
	var values map[string][sha256.Size]byte
	if object.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		data, _, err := unstructured.NestedStringMap(object.Object, "data")
		if err != nil {
			return "", nil, err
		}
		values = map[string][sha256.Size]byte{}
		object = object.DeepCopy()
		for key, encoded := range data {
			value, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return "", nil, fmt.Errorf("data of Secret %s: %w", object.GetName(), err)
			}
			values[key] = authenticate(value)
			data[key] = ""
		}
		if err := unstructured.SetNestedStringMap(object.Object, data, "data"); err != nil {
			return "", nil, err
		}
	}
	digest, err := digestJSON(object.Object)
	return digest, values, err
}

func digestJSON(value any) (string, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:16]), nil
}
