// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/images"
)

// KindFunctions are the pure functions of a kind that return the desired state of an object. The
// package of the kind exports them, and the program registers them.
type KindFunctions struct {
	// Children returns the desired children of an object; nil for a kind with a release.
	Children func(object *unstructured.Unstructured, in ChildrenInput) ([]child.Rendered, error)
	// Fields returns the values that the fields of the spec give to the chart; nil for a kind whose
	// whole spec is the values.
	Fields func(object *unstructured.Unstructured, in FieldsInput) (Fields, error)
	// Chart returns the chart that the operator embeds; nil for a kind whose chart is named elsewhere.
	Chart func() (*chart.Chart, error)
	// Restore is the inverse of Fields for a rollback: it changes the spec of an object so that its
	// fields give some recorded values to the chart. Secrets are not restored. The notes say which
	// fields cannot be restored. It is nil for a kind whose whole spec is the values.
	Restore func(object *unstructured.Unstructured, recorded map[string]any) (notes []string, err error)
}

// ChildrenInput has the input of the desired children of an object, apart from the object itself.
type ChildrenInput struct {
	// Images say where the operator's images are pulled from.
	Images images.Table
	// EnforcesRestricted reports whether the namespace of the object enforces the restricted Pod Security
	// level. The answer is true if the Namespace cannot be read, as for the operator.
	EnforcesRestricted func() bool
}

// FieldsInput has the input of the values of a spec, apart from the spec itself.
type FieldsInput struct {
	// Secret reads a key of a Secret in the namespace of the object.
	Secret func(name, key string) (string, error)
	// Images say where the operator's images are pulled from.
	Images images.Table
	// Deployed are the values of the deployed revision. They contain the operator's findings about
	// the cluster.
	Deployed map[string]any
}

// Fields are the values that the fields of a spec give to the chart.
type Fields struct {
	Values map[string]any
	// Secret has the paths of secret values.
	Secret [][]string
	// Sources names the source of a value by its path, if it is not the field of the same path, such
	// as {"apiKey": "spec.apiKeyFrom"}.
	Sources map[string]string
}

// Layer is one source of values. The values of later layers win.
type Layer struct {
	// Source names the layer, such as "spec.values".
	Source string
	Values map[string]any
	// Secret says that the values are from a Secret.
	Secret bool
	// Sources names the source of single values, by their path.
	Sources map[string]string
}

// sources are the inputs of an object's values, apart from the object itself.
type sources struct {
	// key reads a key of a ConfigMap or a Secret.
	key    func(ctx context.Context, kind releasev1alpha1.ValuesKind, namespace, name, key string) (string, error)
	images images.Table
}

// layers returns the sources of the values of an object, as [sources.layers] does.
func (c *Cluster) layers(
	ctx context.Context, object, current *unstructured.Unstructured, deployed *helm.Recorded, functions KindFunctions,
) (layers []Layer, mask Mask, err error) {
	return sources{key: c.key, images: c.images(ctx)}.layers(ctx, object, current, deployed, functions)
}

// layers returns the sources of the values of an object, without the chart's own defaults. deployed
// is the deployed revision and may be nil. current is the object as it is in the cluster. If a
// ConfigMap or a Secret cannot be read, the other layers come with the error.
func (s sources) layers(
	ctx context.Context, object, current *unstructured.Unstructured, deployed *helm.Recorded, functions KindFunctions,
) (layers []Layer, mask Mask, err error) {
	var recorded map[string]any
	if deployed != nil {
		recorded = deployed.Values
	}
	if functions.Fields == nil {
		layers, err = specLayers(object, current, deployed)
		return layers, mask, err
	}
	spec, _, err := valuesSpecOf(object)
	if err != nil {
		return nil, mask, err
	}
	var unread []error
	for i, from := range spec.ValuesFrom {
		layer, err := s.referenced(ctx, object.GetNamespace(), from)
		if err != nil {
			unread = append(unread, fmt.Errorf("spec.valuesFrom[%d]: %w", i, err))
			continue
		}
		layer.Source = fmt.Sprintf("spec.valuesFrom[%d] %s", i, layer.Source)
		if layer.Secret {
			mask.Paths = append(mask.Paths, leaves(layer.Values, nil)...)
		}
		layers = append(layers, layer)
	}
	layers = append(layers, Layer{Source: "spec.values", Values: spec.Values})
	fields, err := functions.Fields(object, FieldsInput{Deployed: recorded, Images: s.images, Secret: func(name, key string) (string, error) {
		text, err := s.key(ctx, releasev1alpha1.ValuesFromSecret, object.GetNamespace(), name, key)
		if err != nil {
			unread = append(unread, fmt.Errorf("spec: %w", err))
			return notReadable, nil
		}
		return text, nil
	}})
	if err != nil {
		return nil, mask, err
	}
	mask.Paths = append(mask.Paths, fields.Secret...)
	return append(layers, Layer{Source: "spec", Values: fields.Values, Sources: fields.Sources}), mask, errors.Join(unread...)
}

// notReadable is the text in the place of a value whose Secret cannot be read.
const notReadable = "<not readable>"

// valuesSpec are the fields of a spec that hold values of a chart.
type valuesSpec struct {
	ValuesFrom []releasev1alpha1.ValuesReference `json:"valuesFrom"`
	Values     map[string]any                    `json:"values"`
}

// valuesSpecOf returns these fields of an object, and its whole spec.
func valuesSpecOf(object *unstructured.Unstructured) (spec valuesSpec, whole map[string]any, err error) {
	whole, _, _ = unstructured.NestedMap(object.Object, "spec")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(whole, &spec); err != nil {
		return spec, whole, fmt.Errorf("spec: %w", err)
	}
	return spec, whole, nil
}

// errTranslated means that the values of a kind cannot be computed outside of the operator.
var errTranslated = errors.New("the operator makes the values of this kind from a template or a function, which the plugin does not have")

// specLayers returns the layers of a kind whose spec is the values. If the deployed revision has
// more than the spec, the rest are overrides of the operator, unless the spec has changed since.
func specLayers(object, current *unstructured.Unstructured, deployed *helm.Recorded) ([]Layer, error) {
	spec, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		return nil, err
	}
	layers := []Layer{{Source: "spec", Values: spec}}
	if deployed == nil {
		return layers, nil
	}
	if deployed.Owner.Generation != current.GetGeneration() {
		return layers, nil
	}
	before, _, _ := unstructured.NestedMap(current.Object, "spec")
	overrides, complete := difference(before, deployed.Values)
	if !complete {
		return nil, errTranslated
	}
	if len(overrides) > 0 {
		layers = append(layers, Layer{Source: "overrideValues of watches.yaml", Values: overrides, Secret: true})
	}
	return layers, nil
}

// difference returns the values that turn base into merged when they are merged into it. It is not
// complete if merged lacks a value of base.
func difference(base, merged map[string]any) (over map[string]any, complete bool) {
	over = map[string]any{}
	for key, value := range merged {
		before, had := base[key]
		inner, isMap := value.(map[string]any)
		innerBefore, wasMap := before.(map[string]any)
		if isMap && wasMap {
			below, complete := difference(innerBefore, inner)
			if !complete {
				return nil, false
			}
			if len(below) > 0 {
				over[key] = below
			}
			continue
		}
		if !had || !sameValue(before, value) {
			over[key] = value
		}
	}
	for key := range base {
		if _, has := merged[key]; !has {
			return nil, false
		}
	}
	return over, true
}

// sameValue reports whether two values are equal, whatever Go type their numbers have.
func sameValue(a, b any) bool { return reflect.DeepEqual(a, b) || text(a) == text(b) }

// leaves returns the paths of all values that are not objects.
func leaves(value map[string]any, path []string) [][]string {
	var paths [][]string
	for key, inner := range value {
		at := append(append([]string{}, path...), key)
		if below, ok := inner.(map[string]any); ok && len(below) > 0 {
			paths = append(paths, leaves(below, at)...)
		} else {
			paths = append(paths, at)
		}
	}
	return paths
}

// merged returns the values of layers.
func merged(layers []Layer) map[string]any {
	var set map[string]any
	for _, layer := range layers {
		set = values.Merge(set, layer.Values)
	}
	return set
}

// referenced reads the values of a reference.
func (s sources) referenced(ctx context.Context, namespace string, from releasev1alpha1.ValuesReference) (Layer, error) {
	key := values.KeyOf(namespace, from)
	layer := Layer{Source: fmt.Sprintf("%s/%s[%s]", from.Kind, from.Name, key.Key), Secret: from.Kind == releasev1alpha1.ValuesFromSecret}
	content, err := s.key(ctx, from.Kind, namespace, from.Name, key.Key)
	if err != nil && from.Optional && (apierrors.IsNotFound(err) || errors.Is(err, errNoKey)) {
		return layer, nil
	}
	if err != nil {
		return layer, err
	}
	if yaml.Unmarshal([]byte(content), &layer.Values) != nil {
		// The error may repeat a text of a Secret.
		return layer, fmt.Errorf("%s is not a YAML or JSON object", layer.Source)
	}
	return layer, nil
}

// errNoKey means that a ConfigMap or a Secret lacks a key.
var errNoKey = errors.New("no such key")

// key reads a key of a ConfigMap or a Secret.
func (c *Cluster) key(ctx context.Context, kind releasev1alpha1.ValuesKind, namespace, name, key string) (string, error) {
	var text string
	var has bool
	if kind == releasev1alpha1.ValuesFromSecret {
		secret, err := c.Kubernetes.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		var content []byte
		content, has = secret.Data[key]
		text = string(content)
	} else {
		configMap, err := c.Kubernetes.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		text, has = configMap.Data[key]
	}
	if !has {
		return "", fmt.Errorf("%s %s: %w %q", kind, name, errNoKey, key)
	}
	return text, nil
}
