// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package variants

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

const (
	secretName = "my-secret"
	secretKey  = "theKey"
)

// changesWhileAway are changes of one DemoApp each that happen while no operator runs.
var changesWhileAway = []struct {
	name string
	do   func(t *testing.T, ns *apps.Namespace, app string)
	// reason and revision are the reason and the revision of the final status.
	reason   releasev1alpha1.UpgradeReason
	revision int64
}{
	{
		name: "spec",
		do: func(_ *testing.T, ns *apps.Namespace, app string) {
			ns.Change(app, func(spec *v1alpha1.DemoAppSpec) { spec.Message = "While away" })
		},
		reason: releasev1alpha1.UpgradeReasonSpecGenerationChanged, revision: 2,
	},
	{
		name: "key",
		do: func(t *testing.T, ns *apps.Namespace, _ string) {
			t.Helper()
			change := fmt.Sprintf(`{"stringData": {%q: "the-second-key"}}`, secretKey)
			_, err := shared.Client.CoreV1().Secrets(ns.Name).Patch(t.Context(), secretName, types.MergePatchType, []byte(change), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
		},
		reason: releasev1alpha1.UpgradeReasonSpecGenerationChanged, revision: 2,
	},
	{
		name: "changed",
		do: func(t *testing.T, ns *apps.Namespace, app string) {
			t.Helper()
			patchConfigMap(t, ns, app, `{"data": {"index.html": "Changed by another client"}}`)
		},
		reason: releasev1alpha1.UpgradeReasonDriftDetected, revision: 1,
	},
	{
		name: "relabelled",
		do: func(t *testing.T, ns *apps.Namespace, app string) {
			t.Helper()
			patchConfigMap(t, ns, app, `{"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}`)
		},
		reason: releasev1alpha1.UpgradeReasonDriftDetected, revision: 1,
	},
	{
		name: "deleted",
		do: func(t *testing.T, ns *apps.Namespace, app string) {
			t.Helper()
			if err := shared.Client.AppsV1().Deployments(ns.Name).Delete(t.Context(), app, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		reason: releasev1alpha1.UpgradeReasonDriftDetected, revision: 1,
	},
	{
		name: "uninstalled",
		do: func(t *testing.T, ns *apps.Namespace, app string) {
			t.Helper()
			err := shared.Client.CoreV1().Secrets(ns.Name).DeleteCollection(t.Context(), metav1.DeleteOptions{},
				metav1.ListOptions{LabelSelector: "owner=helm,name=" + app})
			if err != nil {
				t.Fatal(err)
			}
		},
		reason: releasev1alpha1.UpgradeReasonDriftDetected, revision: 1,
	},
}

func TestChangesWhileOperatorIsDown(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
	_, err := shared.Client.CoreV1().Secrets(ns.Name).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName}, StringData: map[string]string{secretKey: "the-first-key"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changesWhileAway {
		app := apps.Named(change.name)
		app.Spec.APIKey = ""
		app.Spec.APIKeyFrom = &releasev1alpha1.SecretKeyReference{Name: secretName, Key: secretKey}
		if change.name != "key" {
			app = apps.Named(change.name)
		}
		ns.Create(app)
	}
	ns.Create(apps.Named("gone"))
	ns.AwaitReady("gone")
	before := map[string]apps.Objects{}
	for _, change := range changesWhileAway {
		ns.AwaitReady(change.name)
		before[change.name] = ns.Objects(change.name)
	}
	operator.Stop()
	for _, change := range changesWhileAway {
		change.do(t, ns, change.name)
	}
	ns.Delete("gone")

	cluster.StartOperator(t.Context(), t, shared)
	for _, change := range changesWhileAway {
		ns.Await(change.name, fmt.Sprintf("at revision %d because of %s", change.revision, change.reason), func(app *v1alpha1.DemoApp) bool {
			return apps.IsReady(app) && apps.Revision(app) == change.revision && app.Status.LastUpgradeReason == change.reason &&
				apps.IsAbsent(app, releasev1alpha1.ConditionDrifted)
		})
		after := ns.Objects(change.name)
		if len(after.All()) != 4 {
			t.Errorf("%s: the objects are %v", change.name, after.All())
		}
		if change.revision == 1 && after.ConfigMap.Data["index.html"] != before[change.name].ConfigMap.Data["index.html"] {
			t.Errorf("%s: index.html is %q", change.name, after.ConfigMap.Data["index.html"])
		}
	}
	if got := string(ns.Objects("key").Secret.Data["apiKey"]); got != "the-second-key" {
		t.Errorf("apiKey is %q", got)
	}
	ns.AwaitGone("gone")
	if records := ns.AuditRecords("gone"); len(records) != 1 {
		t.Errorf("%d audit records", len(records))
	}
}

func patchConfigMap(t *testing.T, ns *apps.Namespace, name, change string) {
	t.Helper()
	_, err := shared.Client.CoreV1().ConfigMaps(ns.Name).Patch(t.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
