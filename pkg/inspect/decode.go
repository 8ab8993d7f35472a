// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// newDynamic returns a dynamic client that decodes a list once. The decoder of client-go parses
// each object of a list four times, which would be most of the time of a command about many
// objects.
func newDynamic(config *rest.Config) (dynamic.Interface, error) {
	config = dynamic.ConfigFor(config)
	config.NegotiatedSerializer = serializer{config.NegotiatedSerializer}
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return dynamic.New(client), nil
}

// serializer is the serializer of a dynamic client with another decoder of lists.
type serializer struct{ runtime.NegotiatedSerializer }

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (s serializer) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return listDecoder{s.NegotiatedSerializer.DecoderToVersion(decoder, version)}
}

type listDecoder struct{ runtime.Decoder }

// Decode implements runtime.Decoder.
func (d listDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	list, isList := into.(*unstructured.UnstructuredList)
	if !isList {
		return d.Decoder.Decode(data, defaults, into)
	}
	if err := json.Unmarshal(data, &list.Object); err != nil {
		return nil, nil, err
	}
	items, _ := list.Object["items"].([]any)
	delete(list.Object, "items")
	list.Items = make([]unstructured.Unstructured, 0, len(items))
	kind := list.GroupVersionKind()
	for _, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, &kind, fmt.Errorf("an item of a %s is no object", kind.Kind)
		}
		object := unstructured.Unstructured{Object: fields}
		if object.GetKind() == "" { // The API server leaves out the kind of built-in objects.
			object.SetGroupVersionKind(kind.GroupVersion().WithKind(strings.TrimSuffix(kind.Kind, "List")))
		}
		list.Items = append(list.Items, object)
	}
	return list, &kind, nil
}
