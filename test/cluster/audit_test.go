// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// all selects all requests.
func all(AuditEvent) bool { return true }

func TestAuditLogReadsEachRequestOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := &auditLog{path: path}
	const (
		watchBegins = `{"auditID":"w","stage":"ResponseStarted","verb":"watch","responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z","stageTimestamp":"2026-01-02T03:04:05.000007Z"}` + "\n"
		patch       = `{"auditID":"p","stage":"ResponseComplete","requestURI":"/apis/apps/v1/namespaces/n/deployments/d/status?x=y","verb":"patch","user":{"username":"u","extra":{"authentication.kubernetes.io/credential-id":["JTI=1"]}},"userAgent":"a","objectRef":{"resource":"deployments","namespace":"n","name":"d","apiGroup":"apps","subresource":"status"},"responseStatus":{"code":409},"requestReceivedTimestamp":"2026-01-02T03:04:06Z","stageTimestamp":"2026-01-02T03:04:07Z"}` + "\n"
		watchEnds   = `{"auditID":"w","stage":"ResponseComplete","verb":"watch","responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z","stageTimestamp":"2026-01-02T03:09:05Z"}` + "\n"
	)
	write := func(content string) []AuditEvent {
		t.Helper()
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(content); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		events, logged, err := log.requests(0, all)
		if err != nil || logged != len(events) {
			t.Fatalf("%d of %d requests, error %v", len(events), logged, err)
		}
		return events
	}

	first := write(watchBegins + patch[:20])
	if len(first) != 1 || first[0].Verb != "watch" || !first[0].Completed.IsZero() || first[0].Code != 0 {
		t.Fatalf("a watch has begun and a line is incomplete: %+v", first)
	}
	second := write(patch[20:])
	want := AuditEvent{
		ID: "p", User: "u", Credential: "JTI=1", UserAgent: "a", Verb: "patch", URI: "/apis/apps/v1/namespaces/n/deployments/d/status?x=y",
		Group: "apps", Resource: "deployments", Subresource: "status", Namespace: "n", Name: "d", Code: 409,
		Received: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC), Completed: time.Date(2026, 1, 2, 3, 4, 7, 0, time.UTC),
	}
	if len(second) != 2 || second[1] != want {
		t.Fatalf("got %+v, want a watch and %+v", second, want)
	}
	third := write(watchEnds)
	if len(third) != 2 || third[0].Code != 200 || third[0].Completed.IsZero() {
		t.Errorf("the watch has ended: %+v", third)
	}
	if first[0].Code != 0 {
		t.Error("an earlier answer was changed")
	}
	if after, logged, err := log.requests(1, all); len(after) != 1 || after[0] != want || logged != 2 || err != nil {
		t.Errorf("after the watch: got %+v, %d and error %v, want %+v", after, logged, err, want)
	}
}

func TestAuditRequestsSelects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	lines := []string{
		`{"auditID":"1","user":{"username":"system:serviceaccount:a:b"},"requestReceivedTimestamp":"2026-01-02T03:04:05Z"}`,
		`{"auditID":"2","user":{"username":"jane"},"requestReceivedTimestamp":"2026-01-02T03:04:06Z"}`,
		`{"auditID":"3","user":{"username":"system:serviceaccount:a:b"},"requestReceivedTimestamp":"2026-01-02T03:04:07Z"}`,
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{audit: &auditLog{path: path}}
	second := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	tests := []struct {
		name   string
		since  time.Time
		filter AuditFilter
		want   string
	}{
		{name: "all", want: "123"},
		{name: "since", since: second, want: "23"},
		{name: "by user", filter: ByServiceAccount("a", "b"), want: "13"},
		{name: "since, by user", since: second, filter: ByServiceAccount("a", "b"), want: "3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			events, err := c.AuditRequests(test.since, test.filter)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, event := range events {
				got += event.ID
			}
			if got != test.want {
				t.Errorf("got requests %q, want %q", got, test.want)
			}
		})
	}
	if _, err := (&Cluster{audit: &auditLog{}}).AuditRequests(second, nil); err == nil {
		t.Error("no error without an audit log")
	}
}

func TestAuditLogBeginsAfterLastCompleteLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	const (
		before = `{"auditID":"a","stage":"ResponseComplete","verb":"get"}` + "\n"
		begun  = `{"auditID":"b","stage":"ResponseComplete",`
		rest   = `"verb":"list"}` + "\n"
	)
	if err := os.WriteFile(path, []byte(before+begun), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := newAuditLog(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(before+begun+rest), 0o600); err != nil {
		t.Fatal(err)
	}

	events, _, err := log.requests(0, all)

	if err != nil || len(events) != 1 || events[0].ID != "b" {
		t.Errorf("got %+v and error %v, want the event b", events, err)
	}
}
