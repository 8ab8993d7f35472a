// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// sources are where the objects of all kinds come from.
type sources struct {
	// builtin has protobuf as its content type.
	builtin  *rest.Config
	http     *http.Client
	dynamic  dynamic.Interface
	metadata metadata.Interface
}

// source lists and watches the objects of one kind.
type source struct {
	// client is what it goes through, and example one of the objects that come.
	client  any
	example runtime.Object
	list    func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	watch   func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// of returns the source that costs least: the metadata where that tells health, too;
// else protobuf for the kinds that Kubernetes itself has, which the API server has
// encoded already for its own controllers; else JSON. An empty namespace stands for
// all, or for none.
func (s *sources) of(mapping *meta.RESTMapping, namespace string) (source, error) {
	kind := mapping.GroupVersionKind
	switch {
	case statusless[kind.GroupKind()]:
		resource := s.metadata.Resource(mapping.Resource).Namespace(namespace)
		return source{
			client: s.metadata, example: &metav1.PartialObjectMetadata{}, watch: resource.Watch,
			list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return resource.List(ctx, options)
			},
		}, nil
	case scheme.Scheme.Recognizes(kind) && scheme.Scheme.Recognizes(listOf(kind)):
		return s.typed(mapping, namespace)
	default:
		resource := s.dynamic.Resource(mapping.Resource).Namespace(namespace)
		return source{
			client: s.dynamic, example: &unstructured.Unstructured{}, watch: resource.Watch,
			list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return resource.List(ctx, options)
			},
		}, nil
	}
}

func (s *sources) typed(mapping *meta.RESTMapping, namespace string) (source, error) {
	kind := mapping.GroupVersionKind
	config := rest.CopyConfig(s.builtin)
	version := kind.GroupVersion()
	config.GroupVersion, config.APIPath = &version, "/apis"
	if kind.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(config, s.http)
	if err != nil {
		return source{}, fmt.Errorf("client of %s: %w", version, err)
	}
	example, err := scheme.Scheme.New(kind)
	if err != nil {
		return source{}, err
	}
	get := func(options metav1.ListOptions) *rest.Request {
		return client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(mapping.Resource.Resource).
			VersionedParams(&options, scheme.ParameterCodec)
	}
	return source{
		client: client, example: example,
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := scheme.Scheme.New(listOf(kind))
			if err != nil {
				return nil, err
			}
			return list, get(options).Do(ctx).Into(list)
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch = true
			return get(options).Watch(ctx)
		},
	}, nil
}

func listOf(kind schema.GroupVersionKind) schema.GroupVersionKind {
	return kind.GroupVersion().WithKind(kind.Kind + "List")
}

// informer watches the objects that carry Helm's label.
func (s source) informer(resource schema.GroupVersionResource) cache.SharedIndexInformer {
	const selector = managedByLabel + "=" + managedByHelm
	return cache.NewSharedIndexInformerWithOptions(
		cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.LabelSelector = selector
				return s.list(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.LabelSelector = selector
				return s.watch(ctx, options)
			},
		}, s.client),
		s.example,
		cache.SharedIndexInformerOptions{ObjectDescription: resource.String()},
	)
}
