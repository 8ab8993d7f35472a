// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	democlient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/overlay"
	"github.com/example/demoapp-controller/pkg/ssa"
)

const (
	// maxAppName is the maximum length of the name of a DemoApp.
	maxAppName = 53
	// hashDigits is the length of the hashes in names and labels. If the name of the
	// DemoAppCluster has the maximum length, one character of the node's name remains.
	hashDigits = 8
)

var clusterKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "DemoAppCluster"}

// children are the DemoApps of DemoAppClusters: the cached ones, and those written since.
type children struct {
	cached controller.Scoped[*v1alpha1.DemoApp]
	views  overlay.Views[*v1alpha1.DemoApp]
}

func newChildren(informers map[string]cache.SharedIndexInformer) children {
	c := children{cached: controller.Scoped[*v1alpha1.DemoApp]{}, views: overlay.NewViews[*v1alpha1.DemoApp](informers)}
	for namespace, informer := range informers {
		c.cached[namespace] = informer.GetIndexer()
	}
	return c
}

// of returns the apps that a DemoAppCluster controls, by name.
func (c *children) of(cluster *v1alpha1.DemoAppCluster) map[string]*v1alpha1.DemoApp {
	view := c.views.In(cluster.Namespace)
	found := map[string]*v1alpha1.DemoApp{}
	for _, app := range c.cached.ByIndex(cluster.Namespace, byOwner, string(cluster.UID)) {
		if leaving, ok := view.Leaving(app.Namespace, app.Name); ok {
			found[app.Name] = leaving
		}
	}
	for _, app := range view.List(byOwner, string(cluster.UID), func(app *v1alpha1.DemoApp) bool { return metav1.IsControlledBy(app, cluster) }) {
		found[app.Name] = app
	}
	return found
}

// isLeaving reports whether an app is being deleted.
func (c *children) isLeaving(app *v1alpha1.DemoApp) bool {
	_, deleted := c.views.In(app.Namespace).Leaving(app.Namespace, app.Name)
	return deleted || app.DeletionTimestamp != nil
}

// create creates an app. An object that has its name already is not an error.
func (c *children) create(ctx context.Context, client democlient.DemoAppInterface, desired *v1alpha1.DemoApp) error {
	created, err := client.Create(ctx, desired, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		return nil // The cache soon shows the owner of the object.
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", desired.Name, err)
	}
	c.views.In(created.Namespace).Wrote(created)
	klog.FromContext(ctx).Info("Created a child", "target", desired.Name)
	return nil
}

// update writes desired, a changed copy of an observed app. The error wraps a conflict if the app
// has changed meanwhile.
func (c *children) update(ctx context.Context, client democlient.DemoAppInterface, desired *v1alpha1.DemoApp) error {
	updated, err := client.Update(ctx, desired, metav1.UpdateOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("update %s: %w", desired.Name, err)
	}
	c.views.In(updated.Namespace).Wrote(updated)
	klog.FromContext(ctx).Info("Updated a child", "target", desired.Name)
	return nil
}

// delete deletes an app. It does nothing if the app is gone or was replaced.
func (c *children) delete(ctx context.Context, client democlient.DemoAppInterface, app *v1alpha1.DemoApp) error {
	err := client.Delete(ctx, app.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(app.UID))})
	if err != nil && !ssa.IsGone(err, app.Name) && !ssa.IsOutdated(err, app.Name) {
		return fmt.Errorf("delete %s: %w", app.Name, err)
	}
	c.views.In(app.Namespace).Deleted(app)
	klog.FromContext(ctx).Info("Deleted a child", "target", app.Name)
	return nil
}

// observe returns a slot for each node, and the apps without a node.
func (c *children) observe(cluster *v1alpha1.DemoAppCluster, nodes []string) observation {
	var observed observation
	apps := c.of(cluster)
	hash := templateHash(cluster.Spec.Template)
	taken := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		s := slot{node: node, desired: desiredApp(cluster, node, hash)}
		app, ours := apps[s.desired.Name]
		switch {
		case taken[s.desired.Name]:
			s.state = stateTaken // By the app of another node with the same hash.
		case ours:
			s.app = app
			s.state = c.stateOf(app, s.desired)
		default:
			s.app, s.state = c.other(cluster, s.desired)
		}
		taken[s.desired.Name] = true
		observed.slots = append(observed.slots, s)
	}
	for _, name := range slices.Sorted(maps.Keys(apps)) {
		if !taken[name] {
			observed.extra = append(observed.extra, extra{app: apps[name], leaving: c.isLeaving(apps[name])})
		}
	}
	return observed
}

func (c *children) stateOf(app, desired *v1alpha1.DemoApp) state {
	switch {
	case c.isLeaving(app):
		return stateLeaving
	case !isUpdated(app, desired):
		return stateOutdated
	default:
		return stateUpdated
	}
}

// other returns the state of a name that no app of the DemoAppCluster has. The app is not nil if it
// becomes an app of the DemoAppCluster.
func (c *children) other(cluster *v1alpha1.DemoAppCluster, desired *v1alpha1.DemoApp) (*v1alpha1.DemoApp, state) {
	app, exists := c.cached.Get(cache.NewObjectName(cluster.Namespace, desired.Name))
	if !exists {
		return nil, stateAbsent
	}
	ref := metav1.GetControllerOfNoCopy(app)
	ofPredecessor := ref != nil && ref.Kind == clusterKind.Kind && ref.Name == cluster.Name && ref.UID != cluster.UID
	switch {
	case app.DeletionTimestamp != nil, ofPredecessor:
		return nil, stateLeaving // The garbage collector deletes the apps of the predecessor.
	case isOrphan(app) && app.Labels[v1alpha1.LabelCluster] == cluster.Name && app.Labels[v1alpha1.LabelNode] == desired.Labels[v1alpha1.LabelNode]:
		return app, stateOutdated
	default:
		return nil, stateTaken
	}
}

// isOrphan reports whether an app has no controller: its DemoAppCluster was deleted with the propagation
// policy Orphan, or a backup tool created the app again. The labels name its DemoAppCluster and its node.
// A client that can write them can write the app.
func isOrphan(app *v1alpha1.DemoApp) bool { return metav1.GetControllerOfNoCopy(app) == nil }

// isUpdated reports whether an app matches its template, ignoring metadata that other
// clients added.
func isUpdated(app, desired *v1alpha1.DemoApp) bool {
	return child.HasMetadata(app, desired) && apiequality.Semantic.DeepEqual(app.Spec, desired.Spec)
}

// desiredApp is the desired app of a node.
func desiredApp(cluster *v1alpha1.DemoAppCluster, node, hash string) *v1alpha1.DemoApp {
	template := cluster.Spec.Template
	labels := plain(template.Metadata.Labels)
	labels[v1alpha1.LabelCluster] = cluster.Name
	labels[v1alpha1.LabelNode] = naming.Shortened(node, validation.LabelValueMaxLength, hashDigits)
	labels[v1alpha1.LabelTemplateHash] = hash
	// Permission to edit DemoAppClusters must not allow the adoption of releases of other
	// owners.
	annotations := plain(template.Metadata.Annotations)
	delete(annotations, releasev1alpha1.AnnotationAdoptRelease)
	app := &v1alpha1.DemoApp{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       cluster.Namespace,
			Name:            appName(cluster.Name, node),
			Labels:          labels,
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{child.Reference(cluster, v1alpha1.GroupVersion.String(), clusterKind.Kind)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	app.Spec.NodeName = node
	return app
}

// updatedApp returns the app with the desired spec, metadata and owner.
func updatedApp(app, desired *v1alpha1.DemoApp) (*v1alpha1.DemoApp, error) {
	updated := app.DeepCopy()
	updated.Spec = desired.Spec
	if isOrphan(updated) {
		updated.OwnerReferences = append(updated.OwnerReferences, desired.OwnerReferences...)
	}
	if err := setMetadata(updated, desired, fieldManager); err != nil {
		return nil, err
	}
	return updated, nil
}

// appName returns <cluster>-<node>. A hash of the node's name replaces the end of a long
// name. The hash is also added to a name with dots, because they are replaced by dashes:
// the nodes "a.b" and "a-b" get different names.
func appName(cluster, node string) string {
	fits := maxAppName - len(cluster) - len("-")
	if !strings.Contains(node, ".") {
		return cluster + "-" + naming.Shortened(node, fits, hashDigits)
	}
	return cluster + "-" + naming.Hashed(strings.ReplaceAll(node, ".", "-"), node, fits, hashDigits)
}

// templateHash is a hash of the template, for users and their label selectors. It omits
// the API key and the free values, because they could be guessed from the label. The
// controller itself compares specs, not hashes.
func templateHash(template v1alpha1.DemoAppTemplate) string {
	template = *template.DeepCopy()
	template.Spec.APIKey = ""
	template.Spec.Values = nil
	// Objects from the API server always have a JSON form.
	text, err := json.Marshal(template)
	if err != nil {
		text = fmt.Appendf(nil, "%+v", template)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:hashDigits]
}

// ownerIndex indexes apps by the UID of their DemoAppCluster.
func ownerIndex(object any) ([]string, error) {
	app, ok := object.(*v1alpha1.DemoApp)
	if !ok {
		return nil, fmt.Errorf("index of DemoApps: got a %T", object)
	}
	if uid := ownerUID(app); uid != "" {
		return []string{string(uid)}, nil
	}
	return nil, nil
}

// ownerUID is the UID of the DemoAppCluster that controls an app; empty for none.
func ownerUID(app *v1alpha1.DemoApp) types.UID {
	ref := metav1.GetControllerOfNoCopy(app)
	if ref == nil || ref.Kind != clusterKind.Kind || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group != clusterKind.Group {
		return ""
	}
	return ref.UID
}
