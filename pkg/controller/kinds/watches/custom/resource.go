// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/rawjson"
)

// Resource is a custom resource with a release. Its content stays JSON text until a pass decodes
// it, because a decoded object can take 70 times the memory of its text.
//
// Of labels, owner references and managed fields, only the content has the first two. Of the
// annotations, the metadata has those that the kind reads.
type Resource struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Status Status
	// Release is the object release; nil without one. It is shared by copies, and never changed.
	Release *file.Release

	// content is the object as JSON, see Content. It is empty if its metadata is beyond the limits.
	content string
	excess  error
	// invalid is the error in the object release.
	invalid error
	// labels is a digest of the labels.
	labels [sha256.Size]byte
}

// UnmarshalJSON implements json.Unmarshaler. It decodes the metadata and the status only.
//
// A status that cannot be read counts as empty; the next write replaces it. A deployed release
// without a revision counts as none, because an upstream operator wrote it.
func (r *Resource) UnmarshalJSON(data []byte) error {
	*r = Resource{}
	var whole, status, release []byte
	for name, value := range rawjson.Members(data) {
		switch name {
		case "apiVersion":
			r.APIVersion = text(value)
		case "kind":
			r.Kind = text(value)
		case "metadata":
			whole = value
		case "status":
			status = value
		case "release":
			release = value
		}
	}
	if err := utiljson.Unmarshal(object(without(whole, "managedFields", "labels", "ownerReferences")), &r.ObjectMeta); err != nil {
		return fmt.Errorf("decode the metadata of a custom resource: %w", err)
	}
	r.Finalizers = slices.Clone(r.Finalizers) // Without unused room.
	r.labels = sha256.Sum256(rawjson.Member(whole, "labels"))
	r.Status.Keyed = bytes.Contains(rawjson.Member(whole, "managedFields"), []byte(`"f:conditions":{"k:{`))
	r.Status.read(status)
	if len(release) > 0 {
		r.Release, r.invalid = file.ParseRelease(release)
	}
	r.setContent(data, object(without(whole, "managedFields")))
	return nil
}

// setContent keeps content within the limits.
func (r *Resource) setContent(data, metadata []byte) {
	described := func(yield func(string, []byte) bool) { yield("metadata", metadata) }
	if err := values.CheckFields(described); err != nil {
		r.excess = fmt.Errorf("too many or too long labels, annotations, owner references or finalizers: %w", err)
		return
	}
	rest := without(data, "apiVersion", "kind", "metadata", "status")
	if r.excess = values.CheckFields(rest); r.excess != nil {
		rest = func(func(string, []byte) bool) {}
	}
	r.content = string(object(func(yield func(string, []byte) bool) {
		if yield("metadata", metadata) {
			rest(yield)
		}
	}))
}

// Excess says which part of the object is beyond the limits of values; nil if all is within them.
func (r *Resource) Excess() error { return r.excess }

// Invalid returns the error in the object release; nil if it is valid.
func (r *Resource) Invalid() error { return r.invalid }

// Content decodes the object, without status and managedFields. The caller owns the result. It
// takes at most 20 MiB of memory, so keep it no longer than a pass. If the object is beyond
// the limits, the result has its metadata only.
func (r *Resource) Content() (*unstructured.Unstructured, error) {
	decoded := &unstructured.Unstructured{Object: map[string]any{}}
	if r.content != "" {
		if err := utiljson.Unmarshal([]byte(r.content), &decoded.Object); err != nil {
			return nil, fmt.Errorf("decode the custom resource: %w", err)
		}
	} else {
		metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&r.ObjectMeta)
		if err != nil {
			return nil, fmt.Errorf("encode the metadata of the custom resource: %w", err)
		}
		decoded.Object["metadata"] = metadata
	}
	decoded.SetGroupVersionKind(r.GroupVersionKind())
	return decoded, nil
}

// SameLabels reports whether two versions have the same labels.
func (r *Resource) SameLabels(other *Resource) bool { return r.labels == other.labels }

// keep drops all annotations but those with these names.
func (r *Resource) keep(names []string) {
	kept := map[string]string{}
	for _, name := range names {
		if value, ok := r.Annotations[name]; ok {
			kept[name] = value
		}
	}
	r.Annotations = kept
}

// DeepCopy returns a copy that shares nothing that can change with the original.
func (r *Resource) DeepCopy() *Resource {
	copied := *r
	r.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	r.Status.ReleaseStatus.DeepCopyInto(&copied.Status.ReleaseStatus)
	return &copied
}

// DeepCopyObject implements runtime.Object.
func (r *Resource) DeepCopyObject() runtime.Object { return r.DeepCopy() }

// List is a list of custom resources.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Resource `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *List) DeepCopyObject() runtime.Object {
	copied := &List{TypeMeta: l.TypeMeta, Items: make([]Resource, 0, len(l.Items))}
	l.ListMeta.DeepCopyInto(&copied.ListMeta)
	for i := range l.Items {
		copied.Items = append(copied.Items, *l.Items[i].DeepCopy())
	}
	return copied
}

// object encodes the members of an object.
func object(members iter.Seq2[string, []byte]) []byte {
	encoded := bytes.NewBufferString("{")
	for name, value := range members {
		if encoded.Len() > 1 {
			encoded.WriteByte(',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			continue // A text can always be encoded.
		}
		encoded.Write(key)
		encoded.WriteByte(':')
		encoded.Write(value)
	}
	encoded.WriteByte('}')
	return encoded.Bytes()
}

// text decodes a text; empty for any other value.
func text(value []byte) string {
	var decoded string
	if json.Unmarshal(value, &decoded) != nil {
		return ""
	}
	return decoded
}

func only(document []byte, names ...string) iter.Seq2[string, []byte] {
	return selected(document, func(name string) bool { return slices.Contains(names, name) })
}

func without(document []byte, names ...string) iter.Seq2[string, []byte] {
	return selected(document, func(name string) bool { return !slices.Contains(names, name) })
}

func selected(document []byte, selects func(name string) bool) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for name, value := range rawjson.Members(document) {
			if selects(name) && !yield(name, value) {
				return
			}
		}
	}
}
