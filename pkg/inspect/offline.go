// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/pkg/redact"
)

// Offline computes what objects desire without a cluster.
type Offline struct {
	// Objects stand for the cluster: Secrets and ConfigMaps that fields refer to, and Namespaces.
	Objects []*unstructured.Unstructured
	// Images say where the operator's images are pulled from.
	Images images.Table
	// KubeVersion and APIVersions are the same as in [helm.TemplateOptions].
	KubeVersion string
	APIVersions []string
	Mask        Mask
}

// OfflineObject is an object that an owner desires, with masked secrets.
type OfflineObject struct {
	*unstructured.Unstructured

	// Source is the template of the chart; empty for a child of a plain kind.
	Source string
	// Hooks are the events at which the object runs as a hook; empty for other objects.
	Hooks []string
}

// OfflineState is the desired state of an owner.
type OfflineState struct {
	// Objects are in the order in which the operator applies them, hooks last. They lack the reference to
	// the owner, whose UID is known only in a cluster.
	Objects []OfflineObject
	// Unknown are lines about facts that only a cluster has, and what the state assumes instead.
	Unknown []string
}

// ErrNoFunctions means that the desired state of a kind cannot be computed outside of the operator.
var ErrNoFunctions = errors.New("the desired state of this kind depends on the flags of the operator, or on what it finds in the cluster")

// Children returns the desired children of an owner of a plain kind.
func (o Offline) Children(owner *unstructured.Unstructured, functions KindFunctions) (*OfflineState, error) {
	if functions.Children == nil {
		return nil, ErrNoFunctions
	}
	state := &OfflineState{}
	rendered, err := functions.Children(owner, ChildrenInput{Images: o.Images, EnforcesRestricted: func() bool {
		return o.enforcesRestricted(owner.GetNamespace(), state)
	}})
	if err != nil {
		return nil, o.Mask.WithoutSecrets(err, owner)
	}
	for _, child := range rendered {
		state.Objects = append(state.Objects, OfflineObject{Unstructured: child.Object})
	}
	return state.finish(o.Mask), nil
}

// Release returns the objects of the release that an owner desires. intended.Values are used as they are
// unless functions computes values of the spec.
func (o Offline) Release(ctx context.Context, owner *unstructured.Unstructured, functions KindFunctions, intended Intended) (*OfflineState, error) {
	state, mask := &OfflineState{}, o.Mask
	if functions.Fields != nil {
		layers, secret, err := sources{key: o.key, images: o.Images}.layers(ctx, owner, owner, nil, functions)
		if layers == nil {
			return nil, mask.WithoutSecrets(err, owner)
		}
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				state.note(strings.TrimSpace(line) + "; add the object to the files")
			}
		}
		intended.Values = merged(layers)
		mask = mask.withValues(intended.Values, secret.Paths)
	}
	mask = mask.withValues(intended.Values, leaves(intended.Overridden, nil))
	options := helm.TemplateOptions{KubeVersion: o.KubeVersion, APIVersions: o.APIVersions, IncludeCRDs: true, Lookup: func(apiVersion, kind, namespace, name string) {
		state.note(fmt.Sprintf("a template looks up %s %s %s/%s, and finds nothing without a cluster", apiVersion, kind, namespace, name))
	}}
	objects, err := helm.Template(ctx, intended.Chart, intended.Namespace, intended.Name, intended.Values, options)
	if err != nil {
		return nil, redact.Error(slices.Collect(texts(intended.Overridden)), mask.WithoutSecrets(err, owner))
	}
	if o.KubeVersion == "" && len(o.APIVersions) == 0 && intended.Chart.NamesCapabilities(intended.Values) {
		state.note("the chart reads .Capabilities: --kube-version and --api-versions set what the cluster serves")
	}
	for _, object := range objects {
		state.Objects = append(state.Objects, OfflineObject(object))
	}
	return state.finish(mask), nil
}

// note adds a line about a fact that only a cluster has, once.
func (s *OfflineState) note(line string) {
	if !slices.Contains(s.Unknown, line) {
		s.Unknown = append(s.Unknown, line)
	}
}

// finish masks the objects and removes references to an owner without a UID.
func (s *OfflineState) finish(mask Mask) *OfflineState {
	all := make([]*unstructured.Unstructured, 0, len(s.Objects))
	for _, object := range s.Objects {
		all = append(all, object.Unstructured)
	}
	mask = mask.withSecretsOf(all)
	for i := range s.Objects {
		s.Objects[i].Unstructured = mask.Object(s.Objects[i].Unstructured)
		s.Objects[i].SetOwnerReferences(nil)
	}
	return s
}

// enforcesRestricted reports whether the namespace enforces the restricted Pod Security level. A namespace
// that is not among the objects does not.
func (o Offline) enforcesRestricted(namespace string, state *OfflineState) bool {
	found := o.find("Namespace", "", namespace)
	if found == nil {
		state.note(fmt.Sprintf("the Pod Security level of Namespace %s, which is taken as not restricted; add the Namespace to the files", namespace))
		return false
	}
	typed := &corev1.Namespace{}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, typed) == nil && controller.EnforcesRestricted(typed)
}

// find returns an object of the core group among the objects; nil for an absent object. An object
// without a namespace is in each one.
func (o Offline) find(kind, namespace, name string) *unstructured.Unstructured {
	i := slices.IndexFunc(o.Objects, func(object *unstructured.Unstructured) bool {
		return object.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind(kind) && object.GetName() == name &&
			(object.GetNamespace() == namespace || object.GetNamespace() == "")
	})
	if i < 0 {
		return nil
	}
	return o.Objects[i]
}

// key reads a key of a ConfigMap or a Secret among the objects.
func (o Offline) key(_ context.Context, kind releasev1alpha1.ValuesKind, namespace, name, key string) (string, error) {
	found := o.find(string(kind), namespace, name)
	if found == nil {
		return "", fmt.Errorf("%s %s is not known without a cluster", kind, name)
	}
	if text, has, _ := unstructured.NestedString(found.Object, "stringData", key); has {
		return text, nil
	}
	text, has, _ := unstructured.NestedString(found.Object, "data", key)
	if !has {
		return "", fmt.Errorf("%s %s: %w %q", kind, name, errNoKey, key)
	}
	if kind != releasev1alpha1.ValuesFromSecret {
		return text, nil
	}
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("%s %s: data.%s is not base64", kind, name, key)
	}
	return string(content), nil
}
