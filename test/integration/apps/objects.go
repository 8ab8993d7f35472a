// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
)

// Objects are the four objects of a release; nil for each that is absent.
type Objects struct {
	Deployment *appsv1.Deployment
	Service    *corev1.Service
	ConfigMap  *corev1.ConfigMap
	Secret     *corev1.Secret
}

// All returns the objects that exist, by kind.
func (o Objects) All() map[string]metav1.Object {
	all := map[string]metav1.Object{}
	if o.Deployment != nil {
		all["Deployment"] = o.Deployment
	}
	if o.Service != nil {
		all["Service"] = o.Service
	}
	if o.ConfigMap != nil {
		all["ConfigMap"] = o.ConfigMap
	}
	if o.Secret != nil {
		all["Secret"] = o.Secret
	}
	return all
}

// Objects returns the objects with a DemoApp's name, of any owner.
func (n *Namespace) Objects(name string) Objects {
	n.t.Helper()
	ctx := n.t.Context()
	var (
		client = n.Cluster.Client
		found  Objects
		err    error
	)
	if found.Deployment, err = client.AppsV1().Deployments(n.Name).Get(ctx, name, metav1.GetOptions{}); err != nil {
		found.Deployment = nil
		n.mustBeAbsent(err)
	}
	if found.Service, err = client.CoreV1().Services(n.Name).Get(ctx, name, metav1.GetOptions{}); err != nil {
		found.Service = nil
		n.mustBeAbsent(err)
	}
	if found.ConfigMap, err = client.CoreV1().ConfigMaps(n.Name).Get(ctx, name, metav1.GetOptions{}); err != nil {
		found.ConfigMap = nil
		n.mustBeAbsent(err)
	}
	if found.Secret, err = client.CoreV1().Secrets(n.Name).Get(ctx, name, metav1.GetOptions{}); err != nil {
		found.Secret = nil
		n.mustBeAbsent(err)
	}
	return found
}

func (n *Namespace) mustBeAbsent(err error) {
	n.t.Helper()
	if !apierrors.IsNotFound(err) {
		n.t.Fatal(err)
	}
}

// Record is one release record of Helm.
type Record struct {
	// Release is the release's name.
	Release string
	// Revision counts from 1.
	Revision int
	// Status is Helm's state of the revision: deployed, superseded, failed, pending-install, ...
	Status string
	// Secret holds the record.
	Secret corev1.Secret
}

// Records returns Helm's records of a release, ordered by revision. With an empty name, it returns
// the records of all releases of the namespace, ordered by name and revision.
func (n *Namespace) Records(name string) []Record {
	n.t.Helper()
	selector := "owner=helm"
	if name != "" {
		selector += ",name=" + name
	}
	secrets, err := n.Cluster.Client.CoreV1().Secrets(n.Name).List(n.t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		n.t.Fatal(err)
	}
	records := make([]Record, 0, len(secrets.Items))
	for i := range secrets.Items {
		labels := secrets.Items[i].Labels
		revision, err := strconv.Atoi(labels["version"])
		if err != nil {
			n.t.Fatalf("release record %s: %v", secrets.Items[i].Name, err)
		}
		records = append(records, Record{
			Release: labels["name"], Revision: revision, Status: labels["status"], Secret: secrets.Items[i],
		})
	}
	slices.SortFunc(records, func(a, b Record) int {
		if byName := strings.Compare(a.Release, b.Release); byName != 0 {
			return byName
		}
		return a.Revision - b.Revision
	})
	return records
}

// String formats a record like helm history.
func (r Record) String() string { return fmt.Sprintf("%s v%d %s", r.Release, r.Revision, r.Status) }

// AwaitEvent waits for an event about a DemoApp with this reason and with all of the parts in its
// note.
func (n *Namespace) AwaitEvent(name, reason string, parts ...string) eventsv1.Event {
	n.t.Helper()
	var found eventsv1.Event
	what := fmt.Sprintf("event %s about %s/%s that says %q", reason, n.Name, name, parts)
	cluster.Eventually(n.t.Context(), n.t, what, func(ctx context.Context) (bool, error) {
		events, err := n.Cluster.Client.EventsV1().Events(n.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range events.Items {
			event := events.Items[i]
			if event.Regarding.Kind == "DemoApp" && event.Regarding.Name == name && event.Reason == reason &&
				!slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(event.Note, part) }) {
				found = event
				return true, nil
			}
		}
		return false, nil
	})
	return found
}

// AuditRecords returns the audit records of a deleted DemoApp.
func (n *Namespace) AuditRecords(name string) []corev1.ConfigMap {
	n.t.Helper()
	selector := metav1.FormatLabelSelector(metav1.SetAsLabelSelector(map[string]string{
		v1alpha1.LabelSourceNamespace: n.Name, v1alpha1.LabelSourceName: name,
	}))
	records, err := n.Cluster.Client.CoreV1().ConfigMaps(AuditNamespace).List(n.t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		n.t.Fatal(err)
	}
	return records.Items
}

// contentKinds are the kinds that Contents reads.
var contentKinds = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "services"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
}

// Contents returns the parts of the namespace's objects that users and Helm wrote, by resource and
// name. Parts that controllers of the cluster write are left out. Equal results mean that no object
// was created, changed or deleted in between.
func (n *Namespace) Contents() map[string]any {
	n.t.Helper()
	contents := map[string]any{}
	for _, kind := range contentKinds {
		list, err := n.Cluster.Dynamic.Resource(kind).Namespace(n.Name).List(n.t.Context(), metav1.ListOptions{})
		if err != nil {
			n.t.Fatal(err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			annotations := object.GetAnnotations()
			delete(annotations, "deployment.kubernetes.io/revision")
			if len(annotations) == 0 {
				annotations = nil // as before the Deployment controller has added its own
			}
			contents[kind.Resource+"/"+object.GetName()] = map[string]any{
				"uid": object.GetUID(), "deleted": object.GetDeletionTimestamp() != nil, "labels": object.GetLabels(),
				"annotations": annotations, "owners": object.GetOwnerReferences(),
				"data": object.Object["data"], "spec": object.Object["spec"],
			}
		}
	}
	return contents
}
