// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/shardcache"
)

// Sources lists, watches and applies objects, each kind in the cheapest form: metadata for
// kinds without a status; protobuf for built-in kinds, which the API server has already
// encoded for its own controllers; and JSON for other kinds.
//
// The answer to an apply has the same form as a watched object. Otherwise their digests
// would differ, because JSON that was decoded and encoded again has its keys in another
// order.
type Sources struct {
	// builtin has protobuf as its content type.
	builtin  *rest.Config
	http     *http.Client
	dynamic  dynamic.Interface
	metadata metadata.Interface

	mu    sync.Mutex
	typed map[schema.GroupVersion]*rest.RESTClient
}

// NewSources returns the sources of the clients, which share the HTTP client. builtin has protobuf
// as its content type.
func NewSources(builtin *rest.Config, client *http.Client, dynamicClient dynamic.Interface, metadataClient metadata.Interface) *Sources {
	return &Sources{
		builtin: builtin, http: client, dynamic: dynamicClient, metadata: metadataClient,
		typed: map[schema.GroupVersion]*rest.RESTClient{},
	}
}

// source lists and watches the objects of one kind.
type source struct {
	// client sends the requests, and example has the type of the objects.
	client  any
	example runtime.Object
	list    func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	watch   func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// of returns the source of a kind. An empty namespace stands for all, or for none.
func (s *Sources) of(mapping *meta.RESTMapping, namespace string) (source, error) {
	kind := mapping.GroupVersionKind
	switch {
	case health.Statusless[kind.GroupKind()]:
		client := s.metadata.Resource(mapping.Resource).Namespace(namespace)
		return source{
			client: s.metadata, example: &metav1.PartialObjectMetadata{}, watch: client.Watch,
			list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return client.List(ctx, options)
			},
		}, nil
	case isBuiltin(kind):
		return s.ofBuiltin(mapping, namespace)
	default:
		client := s.dynamic.Resource(mapping.Resource).Namespace(namespace)
		return source{
			client: s.dynamic, example: &unstructured.Unstructured{}, watch: client.Watch,
			list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return client.List(ctx, options)
			},
		}, nil
	}
}

func (s *Sources) ofBuiltin(mapping *meta.RESTMapping, namespace string) (source, error) {
	kind := mapping.GroupVersionKind
	client, err := s.client(kind.GroupVersion())
	if err != nil {
		return source{}, err
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

// client returns the client for a version of a built-in API group.
func (s *Sources) client(version schema.GroupVersion) (*rest.RESTClient, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client, ok := s.typed[version]; ok {
		return client, nil
	}
	config := rest.CopyConfig(s.builtin)
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(config, s.http)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", version, err)
	}
	s.typed[version] = client
	return client, nil
}

// Apply sends a server-side apply and returns the resulting object.
func (s *Sources) Apply(ctx context.Context, info *resource.Info, data []byte, options metav1.PatchOptions) (metav1.Object, error) {
	mapping, kind := info.Mapping, info.Mapping.GroupVersionKind
	switch {
	case health.Statusless[kind.GroupKind()]:
		return s.metadata.Resource(mapping.Resource).Namespace(info.Namespace).Patch(ctx, info.Name, types.ApplyPatchType, data, options)
	case isBuiltin(kind):
		client, err := s.client(kind.GroupVersion())
		if err != nil {
			return nil, err
		}
		applied, err := scheme.Scheme.New(kind)
		if err != nil {
			return nil, err
		}
		err = client.Patch(types.ApplyPatchType).NamespaceIfScoped(info.Namespace, info.Namespace != "").
			Resource(mapping.Resource.Resource).Name(info.Name).VersionedParams(&options, scheme.ParameterCodec).
			Body(data).Do(ctx).Into(applied)
		if err != nil {
			return nil, err
		}
		return meta.Accessor(applied)
	default:
		return s.dynamic.Resource(mapping.Resource).Namespace(info.Namespace).Patch(ctx, info.Name, types.ApplyPatchType, data, options)
	}
}

// isBuiltin reports whether the kind is a built-in kind that client-go knows.
func isBuiltin(kind schema.GroupVersionKind) bool {
	return scheme.Scheme.Recognizes(kind) && scheme.Scheme.Recognizes(listOf(kind))
}

func listOf(kind schema.GroupVersionKind) schema.GroupVersionKind {
	return kind.GroupVersion().WithKind(kind.Kind + "List")
}

// List implements shardcache.Client.
func (s source) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return s.list(ctx, options)
}

// Watch implements shardcache.Client.
func (s source) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return s.watch(ctx, options)
}

// informer watches the objects of the selected shards that carry Helm's label.
func (s source) informer(shards *shardcache.Selection, resource schema.GroupVersionResource) cache.SharedIndexInformer {
	return shardcache.NewInformer(shards, s, s.client, s.example,
		func(options *metav1.ListOptions) {
			options.LabelSelector = manifest.ManagedByLabel + "=" + manifest.ManagedByHelm
		},
		cache.SharedIndexInformerOptions{ObjectDescription: resource.String()})
}
