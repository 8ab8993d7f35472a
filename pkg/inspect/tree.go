// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	demov1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// Node is an object in the tree of an owner.
type Node struct {
	Reference

	// Object is the object without the data of a Secret; nil if it is absent or cannot be read.
	Object *unstructured.Unstructured
	// Health is the object's health by kstatus. It is NotFound for an absent object, and Unknown
	// for an unreadable object.
	Health health.Health
	// Err is why the object, or one of the lists of its children, could not be read.
	Err error
	// Resource is the resource of an object of the operator's kinds, and zero for any other object.
	Resource schema.GroupResource
	// Revisions are the recorded revisions of the object's release, the newest first.
	Revisions []Revision
	Children  []*Node

	// status is the status of an object of the operator's kinds, and empty for any other object.
	status Status
}

// Revision is a recorded revision of a release.
type Revision struct {
	Number int64 `json:"number"`
	// Status is Helm's word, such as deployed, superseded, failed or pending-upgrade.
	Status string `json:"status"`
}

// Owned reports whether the object is of a kind of the operator.
func (n *Node) Owned() bool { return !n.Resource.Empty() }

// ready reports whether the object is of a kind of the operator and ready.
func (n *Node) ready() bool {
	return n.Owned() && n.Object != nil && Summarize(n.Object).State() == StateReady
}

// All calls yield with the node and all nodes below it, parents first, until it returns false.
func (n *Node) All(yield func(*Node) bool) bool {
	if !yield(n) {
		return false
	}
	for _, child := range n.Children {
		if !child.All(yield) {
			return false
		}
	}
	return true
}

const (
	// maxReads is the number of requests of a tree at the same time.
	maxReads = 8
	// maxDepth bounds a tree of objects that name each other.
	maxDepth = 12
)

var (
	pods        = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	secrets     = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	jobs        = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	replicaSets = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}
)

// controlled are the kinds that a controller creates for an object of a kind whose status does not
// name them.
var controlled = map[schema.GroupKind]schema.GroupVersionKind{
	{Group: "apps", Kind: "DaemonSet"}:                                     pods,
	{Group: "apps", Kind: "Deployment"}:                                    replicaSets,
	{Group: "apps", Kind: "ReplicaSet"}:                                    pods,
	{Group: "apps", Kind: "StatefulSet"}:                                   pods,
	{Group: "batch", Kind: "CronJob"}:                                      jobs,
	{Group: "batch", Kind: "Job"}:                                          pods,
	demov1alpha1.SchemeGroupVersion.WithKind("DemoAppCluster").GroupKind(): demov1alpha1.SchemeGroupVersion.WithKind("DemoApp"),
}

// Tree reads an object and everything below it: the objects of its release or its children, the
// objects that Kubernetes makes of them, down to pods, and the same for children of the operator's
// own kinds. It fails if the root cannot be read. Whatever else cannot be read is a node with Err.
func (c *Cluster) Tree(ctx context.Context, root Reference) (*Node, error) {
	return c.tree(ctx, root, func(*Node) bool { return true })
}

// Overview is [Cluster.Tree] without the objects below ready objects of the operator's kinds.
func (c *Cluster) Overview(ctx context.Context, root Reference) (*Node, error) {
	return c.tree(ctx, root, func(node *Node) bool { return !node.ready() })
}

// tree reads the root and the objects below it. Below other objects, it reads on if expands says so.
func (c *Cluster) tree(ctx context.Context, root Reference, expands func(*Node) bool) (*Node, error) {
	t, err := c.newTreeReader(ctx)
	if err != nil {
		return nil, err
	}
	node, err := t.root(ctx, root)
	if err != nil {
		return nil, err
	}
	level := []*Node{node}
	for depth := 0; depth < maxDepth && len(level) > 0; depth++ {
		t.readLevel(ctx, level)
		var next []*Node
		for _, node := range level {
			next = append(next, node.Children...)
		}
		level = slices.DeleteFunc(next, func(node *Node) bool { return !expands(node) })
	}
	return node, nil
}

// treeReader reads a tree, level by level.
type treeReader struct {
	cluster *Cluster
	kinds   []Kind
	byName  map[string]schema.GroupVersionKind
	// reads has a place for each request at the same time.
	reads chan struct{}
	// lists are the objects that a level needs so many of that one list was read; nil for a list
	// that cannot be read, or is too long.
	lists map[place]*listed
}

func (c *Cluster) newTreeReader(ctx context.Context) (*treeReader, error) {
	kinds, err := c.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	byName, err := c.kindsByName(kinds)
	if err != nil {
		return nil, err
	}
	return &treeReader{cluster: c, kinds: kinds, byName: byName, reads: make(chan struct{}, maxReads), lists: map[place]*listed{}}, nil
}

// root reads an object without its children.
func (t *treeReader) root(ctx context.Context, root Reference) (*Node, error) {
	object, err := t.cluster.Get(ctx, root)
	if err != nil {
		return nil, err
	}
	return t.node(object), nil
}

// resourceOf returns the resource of a kind of the operator, and zero for any other kind.
func (t *treeReader) resourceOf(kind schema.GroupKind) schema.GroupResource {
	for _, own := range t.kinds {
		if own.GroupKind() == kind {
			return schema.GroupResource{Group: own.Group, Resource: own.Resource}
		}
	}
	return schema.GroupResource{}
}

// node returns the node of an object that was read.
func (t *treeReader) node(object *unstructured.Unstructured) *Node {
	node := &Node{Reference: ReferenceOf(object), Object: object, Resource: t.resourceOf(object.GroupVersionKind().GroupKind())}
	if node.Owned() {
		node.status = StatusOf(object)
		node.Health = health.OfReporting(object, object.GroupVersionKind())
	} else {
		node.Health = health.Of(object)
	}
	if object.GroupVersionKind() == secrets {
		unstructured.RemoveNestedField(object.Object, "data")
		unstructured.RemoveNestedField(object.Object, "stringData")
	}
	return node
}

// read returns the node of an object that its owner names. If uid is set, the object must have it:
// another object of the name is not the owner's.
func (t *treeReader) read(ctx context.Context, reference Reference, uid types.UID) *Node {
	object, err := t.get(ctx, reference)
	switch {
	case apierrors.IsNotFound(err), err == nil && (object == nil || uid != "" && object.GetUID() != uid):
		return &Node{Reference: reference, Health: health.Health{Status: status.NotFoundStatus, Message: "The object does not exist"}}
	case err != nil:
		return &Node{Reference: reference, Health: health.Health{Status: status.UnknownStatus, Message: err.Error()}, Err: err}
	default:
		return t.node(object)
	}
}

// get reads an object. It may return nil for an object that does not exist.
func (t *treeReader) get(ctx context.Context, reference Reference) (*unstructured.Unstructured, error) {
	if list := t.lists[place{reference.GroupVersionKind, reference.Namespace}]; list != nil {
		return list.byName[reference.Name], nil
	}
	t.reads <- struct{}{}
	defer func() { <-t.reads }()
	return t.cluster.Get(ctx, reference)
}

// readLevel reads the children of nodes, but no objects below the children.
func (t *treeReader) readLevel(ctx context.Context, level []*Node) {
	t.readLists(ctx, level)
	var group sync.WaitGroup
	for _, node := range level {
		if node.Object != nil {
			group.Go(func() { t.readChildren(ctx, node) })
		}
	}
	group.Wait()
}

// readChildren reads the objects directly below a node.
func (t *treeReader) readChildren(ctx context.Context, node *Node) {
	if node.Owned() {
		node.Children = t.readNamed(ctx, node)
	}
	if kind, ok := controlledKind(node); ok {
		node.Children = append(node.Children, t.controlledBy(ctx, node, kind)...)
	}
	slices.SortStableFunc(node.Children, func(a, b *Node) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
}

// namedChild is an object that the status of its owner names. The UID may be empty.
type namedChild struct {
	Reference

	uid types.UID
}

// named returns the objects that the status of an object of the operator names, and the names of
// kinds that the API server does not serve.
func (t *treeReader) named(node *Node) (named []namedChild, unknown []string) {
	for _, entry := range node.status.Release.Inventory {
		kind := schema.FromAPIVersionAndKind(entry.APIVersion, entry.Kind)
		named = append(named, namedChild{Reference{kind, entry.Namespace, entry.Name}, entry.UID})
	}
	for _, entry := range appliedChildren(node.Object) {
		if kind, served := t.byName[entry.Kind]; served {
			named = append(named, namedChild{Reference{kind, node.Namespace, entry.Name}, types.UID(entry.UID)})
		} else {
			unknown = append(unknown, entry.Kind)
		}
	}
	return named, unknown
}

// readNamed reads the objects that the status of an object of the operator names, and the revisions
// of its release.
func (t *treeReader) readNamed(ctx context.Context, node *Node) []*Node {
	named, unknown := t.named(node)
	if len(unknown) > 0 {
		node.Err = cmp.Or(node.Err, fmt.Errorf("the API server serves no kind %s", unknown[0]))
	}
	if release := node.status.Release.DeployedRelease; release != nil {
		revisions, err := t.revisions(ctx, node.Namespace, release.Name)
		node.Revisions, node.Err = revisions, cmp.Or(node.Err, err)
	}
	read := make([]*Node, len(named))
	var group sync.WaitGroup
	for i, child := range named {
		group.Go(func() { read[i] = t.read(ctx, child.Reference, child.uid) })
	}
	group.Wait()
	return read
}

// revisions returns the recorded revisions of a release, the newest first.
func (t *treeReader) revisions(ctx context.Context, namespace, release string) ([]Revision, error) {
	if list := t.lists[place{secrets, namespace}]; list != nil {
		return list.revisions[release], nil
	}
	t.reads <- struct{}{}
	defer func() { <-t.reads }()
	return t.cluster.Revisions(ctx, namespace, release)
}

// controlledBy returns the objects of a kind whose controller is the node's object.
func (t *treeReader) controlledBy(ctx context.Context, node *Node, kind schema.GroupVersionKind) []*Node {
	objects, err := t.listFor(ctx, node, kind)
	if err != nil {
		node.Err = cmp.Or(node.Err, err)
		return nil
	}
	var children []*Node
	for _, object := range objects {
		if !metav1.IsControlledBy(object, node.Object) || emptyReplicaSet(object) {
			continue
		}
		children = append(children, t.node(object))
	}
	return children
}

// listFor returns the objects of a kind that a node's object may control.
func (t *treeReader) listFor(ctx context.Context, node *Node, kind schema.GroupVersionKind) ([]*unstructured.Unstructured, error) {
	if list := t.lists[place{kind, node.Namespace}]; list != nil {
		return list.byController[node.Object.GetUID()], nil
	}
	t.reads <- struct{}{}
	defer func() { <-t.reads }()
	return t.cluster.List(ctx, kind, node.Namespace, selectorOf(node.Object))
}

// selectorOf returns the label selector of the objects that a controller creates for an object, so
// that a list does not grow with the namespace. It is empty if the objects need not have a common
// label.
func selectorOf(owner *unstructured.Unstructured) string {
	switch owner.GetKind() {
	case "DemoAppCluster":
		return labels.Set{demov1alpha1.LabelCluster: owner.GetName()}.String()
	case "CronJob":
		common, _, _ := unstructured.NestedStringMap(owner.Object, "spec", "jobTemplate", "metadata", "labels")
		return labels.Set(common).String()
	}
	fields, _, _ := unstructured.NestedMap(owner.Object, "spec", "selector")
	var selector metav1.LabelSelector
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &selector) != nil {
		return ""
	}
	valid, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil || len(fields) == 0 {
		return ""
	}
	return valid.String()
}

// controlledKind returns the kind of the objects that a controller creates for a node's object. A
// Deployment without replicas has only empty ReplicaSets, which a tree does not show.
func controlledKind(node *Node) (schema.GroupVersionKind, bool) {
	kind, ok := controlled[node.GroupKind()]
	if kind == replicaSets {
		wanted, given, _ := unstructured.NestedInt64(node.Object.Object, "spec", "replicas")
		existing, _, _ := unstructured.NestedInt64(node.Object.Object, "status", "replicas")
		ok = !given || wanted > 0 || existing > 0
	}
	return kind, ok
}

// emptyReplicaSet reports whether an object is a ReplicaSet of an older template of a Deployment.
func emptyReplicaSet(object *unstructured.Unstructured) bool {
	if object.GroupVersionKind() != replicaSets {
		return false
	}
	wanted, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	existing, _, _ := unstructured.NestedInt64(object.Object, "status", "replicas")
	return wanted == 0 && existing == 0
}

// appliedChildren returns status.children.applied of an object.
func appliedChildren(object *unstructured.Unstructured) []childv1alpha1.AppliedChild {
	entries, _, _ := unstructured.NestedSlice(object.Object, "status", "children", "applied")
	var applied []childv1alpha1.AppliedChild
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		kind, _, _ := unstructured.NestedString(fields, "kind")
		name, _, _ := unstructured.NestedString(fields, "name")
		uid, _, _ := unstructured.NestedString(fields, "uid")
		if kind != "" && name != "" {
			applied = append(applied, childv1alpha1.AppliedChild{Kind: kind, Name: name, UID: uid})
		}
	}
	return applied
}

// kindsByName returns all kinds that the API server serves by their names. Of several kinds of a
// name, one of the operator's comes first, then one of Kubernetes, then any other.
func (c *Cluster) kindsByName(own []Kind) (map[string]schema.GroupVersionKind, error) {
	_, lists, err := c.Discovery.ServerGroupsAndResources()
	if lists == nil && err != nil {
		return nil, fmt.Errorf("discover the kinds of the API server: %w", err)
	}
	builtin, other := map[string]schema.GroupVersionKind{}, map[string]schema.GroupVersionKind{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		found := other
		if helm.IsBuiltIn(version.Group) {
			found = builtin
		}
		for _, resource := range list.APIResources {
			// The API server lists the versions of a group in the order of preference.
			if _, known := found[resource.Kind]; !known && !strings.Contains(resource.Name, "/") {
				found[resource.Kind] = version.WithKind(resource.Kind)
			}
		}
	}
	maps.Copy(other, builtin)
	for _, kind := range own {
		other[kind.Kind] = kind.GroupVersionKind
	}
	return other, nil
}

// Revisions returns the recorded revisions of a release, the newest first. It reads the metadata of
// the Secrets alone.
func (c *Cluster) Revisions(ctx context.Context, namespace, release string) ([]Revision, error) {
	records, _, err := c.listUpTo(ctx, secrets, namespace, record.SelectorOf(release), math.MaxInt, true)
	return revisionsOf(records)[release], err
}

// revisionsOf returns the recorded revisions of releases among Secrets, by name.
func revisionsOf(found []*unstructured.Unstructured) map[string][]Revision {
	byRelease := map[string][]Revision{}
	for _, record := range found {
		if labels := record.GetLabels(); labels["owner"] == "helm" {
			if number, err := strconv.ParseInt(labels["version"], 10, 64); err == nil {
				name := labels["name"]
				byRelease[name] = append(byRelease[name], Revision{Number: number, Status: labels["status"]})
			}
		}
	}
	for _, revisions := range byRelease {
		slices.SortFunc(revisions, func(a, b Revision) int { return cmp.Compare(b.Number, a.Number) })
	}
	return byRelease
}
