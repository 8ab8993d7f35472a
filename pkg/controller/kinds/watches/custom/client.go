// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// pageSize limits the objects of one answer to a list. All of an answer is in memory at once, and
// an object has up to 1.5 MiB. API servers with streaming lists send no such answers.
const pageSize = 50

// Client reads and writes the custom resources of one kind as [Resource].
type Client struct {
	rest     rest.Interface
	resource schema.GroupVersionResource
	// annotations are those that are kept.
	annotations []string
	// undeclared are the fields of the status that the CRD does not have.
	undeclared undeclared
}

// NewClient returns a client of a kind. annotations are the annotations that the kind reads.
func NewClient(
	config *rest.Config, httpClient *http.Client, kind schema.GroupVersionKind, resource schema.GroupVersionResource, annotations []string,
) (*Client, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(kind, &Resource{})
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // For errors.
	version := kind.GroupVersion()
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = codecs{serializer.NewCodecFactory(scheme).WithoutConversion()}
	client, err := rest.RESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", resource.GroupResource(), err)
	}
	return &Client{rest: client, resource: resource, annotations: annotations}, nil
}

// codecs keep the kind of decoded objects, which the codecs of typed clients clear.
type codecs struct{ runtime.NegotiatedSerializer }

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (codecs) DecoderToVersion(decoder runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return decoder
}

// Informers returns informers of the custom resources by watched namespace; no namespaces mean
// all. Their objects are of type *[Resource].
func (c *Client) Informers(namespaces []string, selector labels.Selector) (map[string]cache.SharedIndexInformer, error) {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	informers := map[string]cache.SharedIndexInformer{}
	for _, namespace := range namespaces {
		informer := cache.NewSharedIndexInformerWithOptions(
			cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
					options.LabelSelector = selector.String()
					return c.list(ctx, namespace, options)
				},
				WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
					options.LabelSelector, options.Watch = selector.String(), true
					return c.get(namespace, options).Watch(ctx)
				},
			}, c.rest),
			&Resource{}, cache.SharedIndexInformerOptions{ObjectDescription: c.resource.String(), Indexers: cache.Indexers{}},
		)
		if err := informer.SetTransform(c.transform); err != nil {
			return nil, err
		}
		informers[namespace] = informer
	}
	return informers, nil
}

func (c *Client) transform(object any) (any, error) {
	if r, ok := object.(*Resource); ok {
		r.keep(c.annotations)
	}
	return object, nil
}

// list returns custom resources, in small pages if the caller asks for pages. The API server has
// pages only in lists without a version.
func (c *Client) list(ctx context.Context, namespace string, options metav1.ListOptions) (*List, error) {
	if options.Limit > 0 {
		options.Limit, options.ResourceVersion = pageSize, ""
	}
	list := &List{}
	err := c.get(namespace, options).Do(ctx).Into(list)
	return list, err
}

func (c *Client) get(namespace string, options metav1.ListOptions) *rest.Request {
	return c.rest.Get().NamespaceIfScoped(namespace, namespace != "").Resource(c.resource.Resource).
		VersionedParams(&options, metav1.ParameterCodec)
}

// patch returns the API server's answer.
func (c *Client) patch(
	ctx context.Context, namespace, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) ([]byte, error) {
	result := c.rest.Patch(patchType).NamespaceIfScoped(namespace, namespace != "").Resource(c.resource.Resource).Name(name).
		SubResource(subresources...).VersionedParams(&options, metav1.ParameterCodec).Body(data).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}
