// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
)

// connectionVariable names the environment variable with the connection of a control plane that test packages share.
// "localcluster exec" sets the variable.
const connectionVariable = "LOCALCLUSTER_CONNECTION"

// restoreTimeout bounds how long the removal of a package's objects may take.
const restoreTimeout = 3 * time.Minute

// crdResource is the resource of CRDs.
var crdResource = schema.GroupVersionResource{Group: crdKind.Group, Version: "v1", Resource: "customresourcedefinitions"}

// sharing is the use of a control plane that another process has started.
type sharing struct {
	// lock excludes other packages from the control plane.
	lock *os.File
	// keepObjects leaves what the package made.
	keepObjects bool
	// before has the UIDs of the cluster-scoped objects that existed when the package began.
	before sets.Set[types.UID]
}

// sharedConnection returns the connection of the shared control plane, and false if there is none that has what options
// ask for.
func sharedConnection(options Options) (connection, bool, error) {
	text := os.Getenv(connectionVariable)
	if text == "" {
		return connection{}, false, nil
	}
	var shared connection
	if err := json.Unmarshal([]byte(text), &shared); err != nil {
		return connection{}, false, fmt.Errorf("read %s: %w", connectionVariable, err)
	}
	fits := (shared.AuditLog != "" || !options.Audit) && (options.Nodes == 0 || options.Nodes == shared.Nodes)
	return shared, fits, nil
}

// share takes the shared control plane for this package. It waits until the package that has it is done.
func (c *Cluster) share(ctx context.Context, shared connection, keepObjects bool) error {
	lock, err := os.OpenFile(filepath.Join(shared.Dir, "tests.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock the shared control plane: %w", err)
	}
	c.sharing, c.connection = &sharing{lock: lock, keepObjects: keepObjects}, shared
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock the shared control plane: %w", err)
	}
	if err := c.newClients(); err != nil {
		return err
	}
	if c.audit, err = newAuditLog(shared.AuditLog); err != nil {
		return err
	}
	objects, err := c.clusterObjects(ctx)
	if err != nil {
		return err
	}
	c.sharing.before = sets.New[types.UID]()
	for _, object := range objects {
		c.sharing.before.Insert(object.uid)
	}
	return nil
}

// giveBack removes what the package left on the shared control plane, and lets the next package have it.
func (c *Cluster) giveBack() error {
	// The lock ends with the file.
	defer c.sharing.lock.Close()
	if c.sharing.before == nil || c.sharing.keepObjects {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), restoreTimeout)
	defer cancel()
	if err := c.restore(ctx); err != nil {
		return fmt.Errorf("remove what the tests left: %w", err)
	}
	return nil
}

// restore deletes the cluster-scoped objects that the package made, its namespaces and CRDs among them, and waits until
// the API server has removed them.
func (c *Cluster) restore(ctx context.Context) error {
	objects, err := c.clusterObjects(ctx)
	if err != nil {
		return err
	}
	added := slices.DeleteFunc(objects, func(o clusterObject) bool { return c.sharing.before.Has(o.uid) })
	for _, object := range added {
		if object.resource == crdResource {
			// No operator runs that would remove its finalizers.
			if err := c.removeFinalizers(ctx, object.name); err != nil {
				return err
			}
		}
		uid := object.uid
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
		err := c.Dynamic.Resource(object.resource).Delete(ctx, object.name, options)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete %s: %w", object, err)
		}
	}
	for _, object := range added {
		last, err := poll(ctx, func(ctx context.Context) (bool, error) {
			live, err := c.Dynamic.Resource(object.resource).Get(ctx, object.name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return err == nil && live.GetUID() != object.uid, err
		})
		if err != nil {
			return fmt.Errorf("%s is not removed: %w", object, errors.Join(err, last))
		}
	}
	return nil
}

// servedResource returns the resource that a CRD defines, in its first served version.
func servedResource(crd *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	group, _, groupErr := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, pluralErr := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, versionsErr := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err := errors.Join(groupErr, pluralErr, versionsErr); err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("%s: %w", describe(crd), err)
	}
	for _, version := range versions {
		fields, ok := version.(map[string]any)
		name, isText := fields["name"].(string)
		if ok && isText && fields["served"] == true {
			return schema.GroupVersionResource{Group: group, Version: name, Resource: plural}, nil
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("%s serves no version", describe(crd))
}

// removeFinalizers removes the finalizers of all objects of a CRD.
func (c *Cluster) removeFinalizers(ctx context.Context, crd string) error {
	live, err := c.Dynamic.Resource(crdResource).Get(ctx, crd, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get CRD %s: %w", crd, err)
	}
	resource, err := servedResource(live)
	if err != nil {
		return err
	}
	list, err := c.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", crd, err)
	}
	for i := range list.Items {
		object := &list.Items[i]
		if len(object.GetFinalizers()) == 0 {
			continue
		}
		_, err := c.Dynamic.Resource(resource).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(),
			types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove finalizers of %s: %w", describe(object), err)
		}
	}
	return nil
}

// clusterObject is an object that is in no namespace.
type clusterObject struct {
	resource schema.GroupVersionResource
	name     string
	uid      types.UID
}

// String names the object for messages.
func (o clusterObject) String() string { return o.resource.GroupResource().String() + "/" + o.name }

// clusterObjects returns all objects that are in no namespace and can be deleted.
func (c *Cluster) clusterObjects(ctx context.Context) ([]clusterObject, error) {
	lists, err := c.Client.Discovery().ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("discover resources: %w", err)
	}
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists)
	resources, err := discovery.GroupVersionResources(discovery.FilteredBy(
		discovery.ResourcePredicateFunc(func(_ string, r *metav1.APIResource) bool { return !r.Namespaced }), lists))
	if err != nil {
		return nil, fmt.Errorf("discover resources: %w", err)
	}
	var objects []clusterObject
	for resource := range resources {
		list, err := c.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			// The CRD of the resource was removed after the discovery.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource.GroupResource(), err)
		}
		for i := range list.Items {
			objects = append(objects, clusterObject{resource: resource, name: list.Items[i].GetName(), uid: list.Items[i].GetUID()})
		}
	}
	return objects, nil
}
