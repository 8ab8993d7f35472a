// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestHistoryIsLimited asserts that old revisions are removed. Its 13 upgrades follow one another,
// since more than ten revisions are needed.
func TestHistoryIsLimited(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := apps.WithoutPods("web")
	ns.Create(web)
	const revisions, kept = 13, 10
	for revision := 1; revision <= revisions; revision++ {
		ns.Await("web", fmt.Sprintf("at revision %d", revision), func(app *v1alpha1.DemoApp) bool {
			return apps.IsReady(app) && apps.Revision(app) == int64(revision)
		})
		if revision < revisions {
			ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = fmt.Sprintf("Message %d", revision) })
		}
	}
	records := ns.Records("web")
	if len(records) != kept || records[0].Revision != revisions-kept+1 || records[kept-1].Status != "deployed" {
		t.Errorf("records %v, want the last %d", records, kept)
	}
}

// TestPendingOperationOfAnotherClient finds a record which says that the helm command is changing
// the release.
func TestPendingOperationOfAnotherClient(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	pendingRecord(t, ns, "web", 2)
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Has to wait" })
	ns.Await("web", "busy", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, apimeta.ConditionReady, metav1.ConditionFalse, releasev1alpha1.ReasonReleaseBusy) &&
			apps.Has(app, apimeta.ConditionReconciling, metav1.ConditionTrue, releasev1alpha1.ReasonReleaseBusy) &&
			apps.Condition(app, apimeta.ConditionReady).ObservedGeneration == app.Generation
	})
	ns.AwaitQuiet(quiet)
	assertRecords(t, ns, "web v1 deployed", "web v2 pending-upgrade")

	// helm marks the record so when it gives up.
	if err := shared.Client.CoreV1().Secrets(ns.Name).Delete(t.Context(), "sh.helm.release.v1.web.v2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ns.AwaitReady("web")
	assertRecords(t, ns, "web v1 superseded", "web v2 deployed")
}

// pendingRecord writes the record with which helm upgrade begins.
func pendingRecord(t *testing.T, ns *apps.Namespace, name string, revision int) {
	t.Helper()
	last := ns.Records(name)[revision-2].Secret
	content := map[string]any{
		"name": name, "namespace": ns.Name, "version": revision, "manifest": "",
		"info": map[string]any{"status": "pending-upgrade", "description": "Preparing upgrade"},
	}
	encoded, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	if _, err := writer.Write(encoded); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = shared.Client.CoreV1().Secrets(ns.Name).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, revision),
			Labels: map[string]string{
				"owner": "helm", "name": name, "version": fmt.Sprint(revision), "status": "pending-upgrade",
				"createdAt": fmt.Sprint(time.Now().Unix()),
			},
		},
		Type: last.Type,
		Data: map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(compressed.Bytes()))},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
