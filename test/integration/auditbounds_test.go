// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// mostRecordBytes is the documented limit of an audit record, in bytes.
const mostRecordBytes = 64 << 10

// TestManyDeletions deletes more DemoApps than a namespace may have complete records of. The limit
// of complete records is 100, so fewer DemoApps would not exceed it.
func TestManyDeletions(t *testing.T) {
	t.Parallel()
	const count, mostWhole = 150, 100
	// Records that are written at the same time do not count yet.
	const tolerance = 20
	ns := newNamespace(t)
	name := func(i int) string { return fmt.Sprintf("web-%d", i) }
	for i := range count {
		web := apps.Waiting(name(i), "missing")
		web.Spec.Message = strings.Repeat("<", 4096)
		ns.Create(web)
	}
	for i := range count {
		ns.Await(name(i), "waiting", isWaiting)
	}

	if err := ns.Demo.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		ns.AwaitGone(name(i))
	}

	selector := metav1.FormatLabelSelector(metav1.SetAsLabelSelector(map[string]string{v1alpha1.LabelSourceNamespace: ns.Name}))
	records, err := shared.Client.CoreV1().ConfigMaps(apps.AuditNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	whole := 0
	for i := range records.Items {
		record := &records.Items[i]
		assertBounded(t, record)
		if record.Annotations[v1alpha1.AnnotationAuditDetail] == "" {
			whole++
			continue
		}
		if size := len(record.Data["spec"]) + len(record.Data["status"]); size > 300 {
			t.Errorf("%s holds %d bytes", record.Name, size)
		}
	}
	if len(records.Items) != count || whole < mostWhole || whole > mostWhole+tolerance {
		t.Errorf("%d records, %d with contents", len(records.Items), whole)
	}
}

// assertBounded asserts that a record is within its limit and that its sections are JSON.
func assertBounded(t *testing.T, record *corev1.ConfigMap) {
	t.Helper()
	size, err := record.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if len(size) > mostRecordBytes {
		t.Errorf("%s has %d bytes, at most %d are allowed", record.Name, len(size), mostRecordBytes)
	}
	for _, section := range []string{"spec", "status"} {
		if !json.Valid([]byte(record.Data[section])) {
			t.Errorf("%s: %s is no JSON", record.Name, section)
		}
	}
}
