// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// contents are the resources that a state includes, in addition to the operator's kinds.
var contents = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "batch", Version: "v1", Resource: "cronjobs"},
	{Group: "batch", Version: "v1", Resource: "jobs"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
}

// state is the content of a namespace: the objects by resource and name, without the fields that
// differ between two undisturbed runs.
type state map[string]any

// stateOf reads the state of a namespace.
func stateOf(ctx context.Context, namespace string) (state, error) {
	found := state{}
	err := eachObject(ctx, namespace, slices.Concat(contents, kinds), func(resource schema.GroupVersionResource, object *unstructured.Unstructured) {
		if !isOfKubernetes(object) {
			found[resource.Resource+"/"+object.GetName()] = normalized(object, slices.Contains(kinds, resource), namespace)
		}
	})
	return found, err
}

// eachObject calls visit for the objects of resources in a namespace.
func eachObject(
	ctx context.Context, namespace string, resources []schema.GroupVersionResource, visit func(schema.GroupVersionResource, *unstructured.Unstructured),
) error {
	for _, resource := range resources {
		list, err := shared.Dynamic.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			visit(resource, &list.Items[i])
		}
	}
	return nil
}

// awaitCollected waits until the garbage collector has deleted all objects whose owner is gone.
func awaitCollected(ctx context.Context, t testing.TB, namespace string) {
	t.Helper()
	cluster.Eventually(ctx, t, "objects without an owner are gone", func(ctx context.Context) (bool, error) {
		existing, owners := sets.New[types.UID](), sets.New[types.UID]()
		err := eachObject(ctx, namespace, slices.Concat(contents, kinds), func(_ schema.GroupVersionResource, object *unstructured.Unstructured) {
			existing.Insert(object.GetUID())
			for _, owner := range object.GetOwnerReferences() {
				owners.Insert(owner.UID)
			}
		})
		return err == nil && existing.IsSuperset(owners), err
	})
}

// isOfKubernetes reports whether Kubernetes makes an object in each namespace.
func isOfKubernetes(object *unstructured.Unstructured) bool {
	return object.GetName() == "kube-root-ca.crt" || object.GetName() == "default" && object.GetKind() == "ServiceAccount"
}

// normalized returns the compared parts of an object. Only objects of the operator have a status.
func normalized(object *unstructured.Unstructured, own bool, namespace string) any {
	fields := map[string]any{
		"labels": anyOf(object.GetLabels()), "annotations": anyOf(object.GetAnnotations()), "finalizers": fmt.Sprint(object.GetFinalizers()),
		"owners": ownersOf(object), "spec": object.Object["spec"], "deleted": object.GetDeletionTimestamp() != nil,
	}
	switch {
	case object.GetLabels()["owner"] == "helm":
		return cleaned(recordOf(object), namespace)
	case object.GetKind() == "Secret":
		fields["data"] = keysOf(object)
	default:
		fields["data"] = object.Object["data"]
	}
	if own {
		sortConditions(object)
		fields["status"] = object.Object["status"]
	}
	return cleaned(fields, namespace)
}

// ownersOf returns the owners of an object, without their UIDs.
func ownersOf(object *unstructured.Unstructured) []any {
	owners := []any{}
	for _, owner := range object.GetOwnerReferences() {
		owners = append(owners, fmt.Sprintf("%s %s, controller: %t", owner.Kind, owner.Name, ptr.Deref(owner.Controller, false)))
	}
	return owners
}

// recordOf returns the compared parts of a release record, or why it cannot be read.
func recordOf(object *unstructured.Unstructured) map[string]any {
	var secret corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &secret); err != nil {
		return map[string]any{"error": err.Error()}
	}
	release, _, err := record.Decode(secret.Data["release"], record.Size{Bytes: 4 << 20, Nodes: 1 << 20})
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return map[string]any{
		"label": secret.Labels["status"], "status": release.Info.Status.String(), "values": release.Config,
		"chart": release.Chart.Metadata.Version, "manifest": release.Manifest,
	}
}

// sortConditions sorts conditions by type. The API does not define their order.
func sortConditions(object *unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	if len(conditions) == 0 {
		return
	}
	typeOf := func(condition any) string { return fmt.Sprint(condition.(map[string]any)["type"]) }
	slices.SortFunc(conditions, func(a, b any) int { return strings.Compare(typeOf(a), typeOf(b)) })
	object.Object["status"].(map[string]any)["conditions"] = conditions
}

func keysOf(object *unstructured.Unstructured) string {
	data, _, _ := unstructured.NestedMap(object.Object, "data")
	keys := make([]string, 0, len(data))
	for key := range data {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

func anyOf(labels map[string]string) map[string]any {
	values := map[string]any{}
	for key, value := range labels {
		values[key] = value
	}
	return values
}

// accidental are fields that the API server or a controller of Kubernetes chooses, digests of
// generated passwords, and the generation of the owner at the last write of a child.
var accidental = []string{
	"checksum/secret", "clusterIP", "clusterIPs", "nodePort", "volumeName", "deployment.kubernetes.io/revision", "pv.kubernetes.io/bind-completed",
	"pv.kubernetes.io/bound-by-controller", "volume.kubernetes.io/selected-node", "owner",
}

// differing are the texts that differ between two undisturbed runs, and their replacements.
var differing = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\b[0-9a-f]{12,}(@\d+)?\b`), "DIGEST"},
	{regexp.MustCompile(`checksum/secret: "[0-9a-f]+"`), "checksum/secret: DIGEST"},
	{regexp.MustCompile(`\bweb-[0-9a-f]{6,10}-[0-9a-z]{5}\b`), "POD"},
}

// cleaned replaces the texts that differ between two undisturbed runs.
func cleaned(value any, namespace string) any {
	switch value := value.(type) {
	case map[string]any:
		clean := map[string]any{}
		for key, inner := range value {
			if !slices.Contains(accidental, key) {
				clean[key] = cleaned(inner, namespace)
			}
		}
		return clean
	case []any:
		clean := make([]any, 0, len(value))
		for _, inner := range value {
			clean = append(clean, cleaned(inner, namespace))
		}
		return clean
	case string:
		text := strings.ReplaceAll(value, namespace, "NAMESPACE")
		for _, d := range differing {
			text = d.pattern.ReplaceAllString(text, d.replacement)
		}
		return text
	default:
		return value
	}
}

// eventsOf counts the events of the operator about the subject by reason. An event that was sent
// again counts once for each time.
func eventsOf(ctx context.Context, namespace string) (map[string]int, error) {
	list, err := shared.Client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	counts := map[string]int{}
	for i := range list.Items {
		event := &list.Items[i]
		if event.Regarding.Name != "web" || !strings.HasPrefix(event.ReportingController, "demoapp-controller") {
			continue
		}
		counts[event.Reason]++
		if event.Series != nil {
			counts[event.Reason] += int(event.Series.Count) - 1
		}
	}
	return counts, nil
}

// auditRecordsOf returns the number of audit records about a namespace.
func auditRecordsOf(ctx context.Context, namespace string) (int, error) {
	list, err := shared.Client.CoreV1().ConfigMaps(apps.AuditNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: "demo.example.com/source-namespace=" + namespace,
	})
	if err != nil {
		return 0, fmt.Errorf("list audit records: %w", err)
	}
	return len(list.Items), nil
}
