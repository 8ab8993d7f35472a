// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// ownedKinds are the kinds of a release's objects, each with a patch that changes a field of the
// chart.
var ownedKinds = []struct {
	kind     string
	resource schema.GroupVersionResource
	change   string
}{
	{
		kind:     "Deployment",
		resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		change:   `{"spec": {"replicas": 5}}`,
	},
	{
		kind:     "Service",
		resource: schema.GroupVersionResource{Version: "v1", Resource: "services"},
		change:   `{"spec": {"selector": {"app.kubernetes.io/name": "other"}}}`,
	},
	{
		kind:     "ConfigMap",
		resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		change:   `{"data": {"index.html": "Changed by another client"}}`,
	},
	{
		kind:     "Secret",
		resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
		change:   `{"data": {"apiKey": "c3RvbGVuLWtleQ=="}}`,
	},
}

// driftCases are the changes by other clients that make an object drift.
var driftCases = []struct {
	name string
	// reported is how the message of the condition Drifted describes the drift.
	reported string
	do       func(t *testing.T, client dynamic.ResourceInterface, change string)
}{
	{name: "changed", reported: "changed", do: func(t *testing.T, client dynamic.ResourceInterface, change string) {
		t.Helper()
		patch(t, client, "web", change)
	}},
	{name: "deleted", reported: "missing", do: func(t *testing.T, client dynamic.ResourceInterface, _ string) {
		t.Helper()
		if err := client.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}},
	{name: "managed-by label removed", reported: "missing", do: func(t *testing.T, client dynamic.ResourceInterface, _ string) {
		t.Helper()
		patch(t, client, "web", `{"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}`)
	}},
	{name: "app label changed", reported: "changed", do: func(t *testing.T, client dynamic.ResourceInterface, _ string) {
		t.Helper()
		patch(t, client, "web", `{"metadata": {"labels": {"app.kubernetes.io/name": "other"}}}`)
	}},
	{name: "release annotations removed", reported: "changed", do: func(t *testing.T, client dynamic.ResourceInterface, _ string) {
		t.Helper()
		patch(t, client, "web", `{"metadata": {"annotations": {"meta.helm.sh/release-name": null, "meta.helm.sh/release-namespace": null}}}`)
	}},
	{name: "field taken over by server-side apply", reported: "changed", do: func(t *testing.T, client dynamic.ResourceInterface, change string) {
		t.Helper()
		live := get(t, client, "web")
		taken := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(change), &taken.Object); err != nil {
			t.Fatal(err)
		}
		taken.SetAPIVersion(live.GetAPIVersion())
		taken.SetKind(live.GetKind())
		taken.SetName("web")
		if _, err := client.Apply(t.Context(), "web", taken, metav1.ApplyOptions{FieldManager: "their-tool", Force: true}); err != nil {
			t.Fatal(err)
		}
	}},
	{name: "owner reference removed", reported: "changed", do: func(t *testing.T, client dynamic.ResourceInterface, _ string) {
		t.Helper()
		patch(t, client, "web", `{"metadata": {"ownerReferences": null}}`)
	}},
}

func TestDriftIsCorrected(t *testing.T) {
	t.Parallel()
	for _, owned := range ownedKinds {
		for _, drift := range driftCases {
			t.Run(owned.kind+" "+drift.name, func(t *testing.T) {
				t.Parallel()
				ns := newNamespace(t)
				ns.Create(apps.Named("web"))
				before := ns.AwaitReady("web")
				client := shared.Dynamic.Resource(owned.resource).Namespace(ns.Name)
				want := get(t, client, "web")

				begin := time.Now()
				drift.do(t, client, owned.change)
				took := awaitSame(t, client, want, begin)
				t.Logf("corrected after %s", took)

				assertDriftWasReported(t, ns, before, fmt.Sprintf("%s web (%s)", owned.kind, drift.reported))
				assertRecords(t, ns, "web v1 deployed")
			})
		}
	}
}

func TestForeignFieldsAreKept(t *testing.T) {
	t.Parallel()
	for _, owned := range ownedKinds {
		t.Run(owned.kind, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			ns.Create(apps.Named("web"))
			before := ns.AwaitReady("web")
			// The operator may still write the last status and event of the rollout.
			ns.AwaitQuiet(quiet)
			client := shared.Dynamic.Resource(owned.resource).Namespace(ns.Name)

			begin := time.Now()
			change := `{"metadata": {"labels": {"theirs": "label"}, "annotations": {"theirs": "annotation"}}}`
			patch(t, client, "web", change)
			if owned.kind == "ConfigMap" || owned.kind == "Secret" {
				patch(t, client, "web", `{"data": {"theirs": "dGhlaXJz"}}`)
			}
			ns.AwaitQuiet(quiet)

			requests := slices.DeleteFunc(ns.Requests(begin), func(request cluster.AuditEvent) bool {
				// An annotation increments the generation of a Deployment. The Deployment is
				// unhealthy until its controller has observed the generation. The operator may
				// report the unhealthy Deployment in the status.
				return owned.kind == "Deployment" && request.Resource == "demoapps" && request.Subresource == "status"
			})
			if len(requests) > 0 {
				t.Errorf("the operator sent requests:\n%s%s", apps.Describe(requests), ns.ChangesSince("web", begin))
			}
			app := ns.AwaitReady("web")
			if !app.Status.LastUpgradeAt.Equal(before.Status.LastUpgradeAt) || !cmp.Equal(app.Status.Inventory, before.Status.Inventory) {
				t.Errorf("the status reports a change:\n%s", ns.ChangesSince("web", begin))
			}
			after := get(t, client, "web")
			if after.GetLabels()["theirs"] != "label" || after.GetAnnotations()["theirs"] != "annotation" {
				t.Errorf("labels %v, annotations %v", after.GetLabels(), after.GetAnnotations())
			}
			if value, _, _ := unstructured.NestedString(after.Object, "data", "theirs"); value == "" && (owned.kind == "ConfigMap" || owned.kind == "Secret") {
				t.Error("the key of the other client is gone")
			}
		})
	}
}

// assertDriftWasReported waits until the drift is corrected. It asserts that the condition Drifted
// named the object.
func assertDriftWasReported(t *testing.T, ns *apps.Namespace, before *v1alpha1.DemoApp, object string) {
	t.Helper()
	app := ns.Await("web", "ready without the condition Drifted", func(app *v1alpha1.DemoApp) bool {
		return apps.IsAbsent(app, releasev1alpha1.ConditionDrifted) && apps.IsReady(app) &&
			app.Status.LastUpgradeReason == releasev1alpha1.UpgradeReasonDriftDetected
	})
	if apps.Revision(app) != apps.Revision(before) {
		t.Errorf("revision %d, want it to stay %d", apps.Revision(app), apps.Revision(before))
	}
	if app.Status.LastUpgradeAt.Before(before.Status.LastUpgradeAt) {
		t.Errorf("lastUpgradeAt went from %s to %s", before.Status.LastUpgradeAt, app.Status.LastUpgradeAt)
	}
	var messages []string
	for _, version := range ns.Versions("web") {
		if drifted := apps.Condition(version.App, releasev1alpha1.ConditionDrifted); drifted.Status == metav1.ConditionTrue {
			if strings.Contains(drifted.Message, object) {
				return
			}
			messages = append(messages, drifted.Message)
		}
	}
	t.Errorf("Drifted never named %q, only %q", object, messages)
}

func get(t *testing.T, client dynamic.ResourceInterface, name string) *unstructured.Unstructured {
	t.Helper()
	object, err := client.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// patch changes an object, like kubectl edit.
func patch(t *testing.T, client dynamic.ResourceInterface, name, change string) {
	t.Helper()
	_, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitSame waits until an object has the same content as want again. It returns the time from
// begin until then.
func awaitSame(t *testing.T, client dynamic.ResourceInterface, want *unstructured.Unstructured, begin time.Time) time.Duration {
	t.Helper()
	var took time.Duration
	cluster.Eventually(t.Context(), t, want.GetKind()+" with its earlier content", func(ctx context.Context) (bool, error) {
		live, err := client.Get(ctx, want.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		took = time.Since(begin)
		if diff := cmp.Diff(content(want), content(live)); diff != "" {
			return false, fmt.Errorf("content differs (-want +got):\n%s", diff)
		}
		return true, nil
	})
	return took
}

// content returns the fields of an object that the chart or a user sets, without the fields that
// the API server adds.
func content(object *unstructured.Unstructured) map[string]any {
	object = object.DeepCopy()
	annotations := object.GetAnnotations()
	// The Deployment controller increments this annotation.
	delete(annotations, "deployment.kubernetes.io/revision")
	if len(annotations) == 0 {
		annotations = nil // as before the Deployment controller has added its own
	}
	unstructured.RemoveNestedField(object.Object, "spec", "clusterIP")
	unstructured.RemoveNestedField(object.Object, "spec", "clusterIPs")
	return map[string]any{
		"labels": object.GetLabels(), "annotations": annotations, "owners": object.GetOwnerReferences(),
		"spec": object.Object["spec"], "data": object.Object["data"],
	}
}
