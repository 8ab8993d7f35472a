// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"math"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/example/demoapp-controller/pkg/helm"
)

// Cluster reads an API server with the permissions of one user. It is safe for concurrent use.
type Cluster struct {
	Clients

	// Operator names the Lease of the operator's leader, on which the operator reports itself.
	Operator types.NamespacedName

	report func(context.Context) (Report, error)
}

// Clients are the clients of one user.
type Clients struct {
	Dynamic    dynamic.Interface
	Kubernetes kubernetes.Interface
	Metadata   metadata.Interface
	Discovery  discovery.DiscoveryInterface
	Mapper     meta.RESTMapper
}

// pageSize is the number of objects in an answer to a list.
const pageSize = 500

// NewCluster returns the cluster of the kubeconfig flags. operator names the Lease of the
// operator's leader.
func NewCluster(flags genericclioptions.RESTClientGetter, operator types.NamespacedName) (*Cluster, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	// A command sends a burst of reads and ends. The API server's own flow control is fair.
	config.QPS = -1
	var clients Clients
	compact := rest.CopyConfig(config)
	compact.AcceptContentTypes, compact.ContentType = runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	if clients.Kubernetes, err = kubernetes.NewForConfig(compact); err != nil {
		return nil, err
	}
	if clients.Dynamic, err = newDynamic(config); err != nil {
		return nil, err
	}
	if clients.Metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	cached, err := flags.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	// Discovery decides which kinds exist. A file of kubectl's cache may be hours old.
	cached.Invalidate()
	clients.Discovery = cached
	if clients.Mapper, err = flags.ToRESTMapper(); err != nil {
		return nil, err
	}
	return New(clients, operator), nil
}

// New returns a cluster of given clients. operator names the Lease of the operator's leader.
func New(clients Clients, operator types.NamespacedName) *Cluster {
	c := &Cluster{Clients: clients, Operator: operator}
	var once sync.Once
	var report Report
	var err error
	c.report = func(ctx context.Context) (Report, error) {
		once.Do(func() { report, err = c.readReport(ctx) })
		return report, err
	}
	return c
}

// Reference names an object.
type Reference struct {
	schema.GroupVersionKind

	// Namespace is empty for cluster-scoped objects.
	Namespace, Name string
}

// IsBuiltIn reports whether the object is of a kind of Kubernetes itself.
func (r Reference) IsBuiltIn() bool { return helm.IsBuiltIn(r.Group) }

// ReferenceOf returns the reference of an object.
func ReferenceOf(object *unstructured.Unstructured) Reference {
	return Reference{object.GroupVersionKind(), object.GetNamespace(), object.GetName()}
}

// String returns kind and name, as in "Deployment/web".
func (r Reference) String() string { return r.Kind + "/" + r.Name }

// Get reads an object.
func (c *Cluster) Get(ctx context.Context, object Reference) (*unstructured.Unstructured, error) {
	mapping, err := c.mapping(object.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	return c.resource(mapping.Resource, namespaceFor(mapping, object.Namespace)).Get(ctx, object.Name, metav1.GetOptions{})
}

// mapping returns how to ask for the objects of a kind. An inventory may have a version that the API
// server no longer serves. The object is then the same in another version.
func (c *Cluster) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := c.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		if other, otherErr := c.Mapper.RESTMapping(kind.GroupKind()); otherErr == nil {
			return other, nil
		}
	}
	return mapping, err
}

// List reads all objects of a kind that a label selector selects; all if it is empty. An empty
// namespace means all namespaces.
func (c *Cluster) List(ctx context.Context, kind schema.GroupVersionKind, namespace, selector string) ([]*unstructured.Unstructured, error) {
	found, _, err := c.listUpTo(ctx, kind, namespace, selector, math.MaxInt, false)
	return found, err
}

// listUpTo is List that ends after the page with the object number limit. It returns whether the
// list is complete. With onlyMetadata, the objects have only their metadata.
func (c *Cluster) listUpTo(
	ctx context.Context, kind schema.GroupVersionKind, namespace, selector string, limit int, onlyMetadata bool,
) (found []*unstructured.Unstructured, complete bool, err error) {
	mapping, err := c.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, false, err
	}
	read := c.page
	if onlyMetadata {
		read = c.metadataPage
	}
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		page, next, err := read(ctx, mapping, namespaceFor(mapping, namespace), options)
		if apierrors.IsForbidden(err) {
			return nil, false, err // The answer names user, verb and resource.
		}
		if err != nil {
			return nil, false, fmt.Errorf("list %s: %w", mapping.Resource.GroupResource(), err)
		}
		found = append(found, page...)
		if options.Continue = next; next == "" || len(found) >= limit {
			return found, next == "", nil
		}
	}
}

// page reads a page of a list. It returns where the next page begins; empty for the last one.
func (c *Cluster) page(
	ctx context.Context, mapping *meta.RESTMapping, namespace string, options metav1.ListOptions,
) (objects []*unstructured.Unstructured, next string, err error) {
	list, err := c.resource(mapping.Resource, namespace).List(ctx, options)
	if err != nil {
		return nil, "", err
	}
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return objects, list.GetContinue(), nil
}

// metadataPage is page for objects that have only their metadata.
func (c *Cluster) metadataPage(
	ctx context.Context, mapping *meta.RESTMapping, namespace string, options metav1.ListOptions,
) (objects []*unstructured.Unstructured, next string, err error) {
	list, err := c.Metadata.Resource(mapping.Resource).Namespace(namespace).List(ctx, options)
	if err != nil {
		return nil, "", err
	}
	for i := range list.Items {
		list.Items[i].ManagedFields = nil // They are most of the metadata, and not shown.
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list.Items[i])
		if err != nil {
			return nil, "", err
		}
		object := &unstructured.Unstructured{Object: fields}
		object.SetGroupVersionKind(mapping.GroupVersionKind)
		objects = append(objects, object)
	}
	return objects, list.GetContinue(), nil
}

// Names returns the names of the first objects of a kind, at most [pageSize]. An empty namespace
// means all namespaces.
func (c *Cluster) Names(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]string, error) {
	mapping, err := c.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	found, err := c.Metadata.Resource(mapping.Resource).Namespace(namespaceFor(mapping, namespace)).List(ctx, metav1.ListOptions{Limit: pageSize})
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(found.Items))
	for _, object := range found.Items {
		names = append(names, object.Name)
	}
	return names, nil
}

// resource returns the client of a resource in a namespace; of the whole cluster without one.
func (c *Cluster) resource(resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.Dynamic.Resource(resource)
	}
	return c.Dynamic.Resource(resource).Namespace(namespace)
}

func namespaceFor(mapping *meta.RESTMapping, namespace string) string {
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return ""
	}
	return namespace
}
