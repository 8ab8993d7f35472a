// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
)

func TestRecordName(t *testing.T) {
	deletedAt := time.Unix(1700000000, 999)
	long := func(n int) string { return strings.Repeat("a", n) }
	tests := []struct {
		name            string
		namespace, app  string
		want            string
		wantLen         int
		differsFromThat [2]string
	}{
		{name: "short", namespace: "ns", app: "web", want: "ns-web-1700000000"},
		{name: "just fits", namespace: long(63), app: long(178), want: long(63) + "-" + long(178) + "-1700000000"},
		{name: "one too long", namespace: long(63), app: long(179), wantLen: 253, differsFromThat: [2]string{long(63), long(180)}},
		{name: "same letters, cut elsewhere", namespace: long(63), app: long(200), wantLen: 253, differsFromThat: [2]string{long(62), long(201)}},
		{name: "cut at a dot", namespace: long(63), app: long(160) + strings.Repeat(".", 40) + "x", differsFromThat: [2]string{long(63), long(160) + "." + long(40)}},
		{name: "cut at a dash", namespace: long(63), app: long(160) + strings.Repeat("-", 40) + "x", differsFromThat: [2]string{long(63), long(160) + "." + long(40)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := recordName(test.namespace, test.app, deletedAt)
			if test.want != "" {
				equal(t, "name", test.want, got)
			}
			if test.wantLen != 0 {
				equal(t, "length", test.wantLen, len(got))
			}
			if problems := validation.IsDNS1123Subdomain(got); problems != nil {
				t.Errorf("%s is no name: %v", got, problems)
			}
			if !strings.HasSuffix(got, "-1700000000") {
				t.Errorf("%s does not end with the time", got)
			}
			if other := test.differsFromThat; other[0] != "" && recordName(other[0], other[1], deletedAt) == got {
				t.Errorf("%s is the name for %v, too", got, other)
			}
		})
	}
}

func TestDesiredRecord(t *testing.T) {
	deletedAt := metav1.NewTime(time.Date(2026, 1, 2, 5, 4, 5, 0, time.FixedZone("CET", 2*60*60)))
	tests := []struct {
		name   string
		change func(*v1alpha1.DemoApp)
		spec   string
	}{
		{"key in the spec", func(*v1alpha1.DemoApp) {}, `{"apiKey":"REDACTED","message":"hello"}`},
		{"key in a Secret", keyFrom("keys", "k"), `{"apiKeyFrom":{"key":"k","name":"keys"},"message":"hello"}`},
		{
			"key that reads like JSON",
			func(app *v1alpha1.DemoApp) { app.Spec.APIKey = `"status":` }, `{"apiKey":"REDACTED","message":"hello"}`,
		},
		{
			"key in a message",
			func(app *v1alpha1.DemoApp) { app.Status.Conditions[0].Message = "cannot take " + app.Spec.APIKey },
			`{"apiKey":"REDACTED","message":"hello"}`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			app := newApp("a", isDown, test.change)
			app.DeletionTimestamp = &deletedAt
			before := app.DeepCopy()
			record, err := desiredRecord(app, auditNamespace)
			must(t, err)
			equal(t, "app", before, app)
			equal(t, "name", "demoapp-audit/ns-a-1767323045", record.Namespace+"/"+record.Name)
			equal(t, "labels", map[string]string{
				"demo.example.com/source-namespace": "ns", "demo.example.com/source-name": "a",
			}, record.Labels)
			equal(t, "time", "2026-01-02T03:04:05Z", record.Data["deleted-at"])
			equal(t, "spec", decoded(t, test.spec), decoded(t, record.Data["spec"]))
			var status v1alpha1.DemoAppStatus
			must(t, json.Unmarshal([]byte(record.Data["status"]), &status))
			equal(t, "reason in the status", v1alpha1.ReasonUpgradeFailed, status.Conditions[0].Reason)
			equal(t, "number of entries", 3, len(record.Data))
			if showsKey(asJSON(t, record)) || showsKey(record.Data["status"]) {
				t.Errorf("shows the key: %v", record.Data)
			}
		})
	}
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return fields
}

func TestRecordsOfTheSameSecond(t *testing.T) {
	w := newWorld(t)
	deleted := metav1.NewTime(time.Unix(1700000000, 0))
	made := func(namespace, name string, uid types.UID) *v1alpha1.DemoApp {
		return newApp(name, func(app *v1alpha1.DemoApp) {
			app.Namespace, app.UID, app.DeletionTimestamp = namespace, uid, &deleted
		})
	}
	first, second := made("c", "a-b", "one"), made("c-a", "b", "two")
	w.makeAuditNamespace()
	for range 2 {
		for _, app := range []*v1alpha1.DemoApp{first, second} {
			if _, err := w.controller.audit.ensureRecord(t.Context(), app); err != nil {
				t.Fatal(err)
			}
		}
	}
	var sources []string
	for _, record := range w.records() {
		sources = append(sources, record.Labels[v1alpha1.LabelSourceNamespace]+"/"+record.Labels[v1alpha1.LabelSourceName])
	}
	slices.Sort(sources)
	equal(t, "sources of the records", []string{"c-a/b", "c/a-b"}, sources)
}
