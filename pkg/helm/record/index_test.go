// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/overlay"
)

func recordSecret(revision string, more map[string]string) *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{}
	secret.Namespace, secret.Name = "default", "sh.helm.release.v1.web.v"+revision
	secret.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	secret.Labels = map[string]string{"owner": "helm", "name": "web", "version": revision, "status": "deployed"}
	for key, value := range more {
		secret.Labels[key] = value
	}
	return secret
}

func TestRecordOf(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := map[string]struct {
		secret *metav1.PartialObjectMetadata
		want   *Record
	}{
		"own": {
			recordSecret("3", map[string]string{InputsLabel: "3-abcdef"}),
			&Record{Revision: 3, Status: "deployed", Own: true, Inputs: "abcdef", Changed: created},
		},
		"own, with its chart": {
			recordSecret("3", map[string]string{InputsLabel: "3-abcdef-0123"}),
			&Record{Revision: 3, Status: "deployed", Own: true, Inputs: "abcdef", ChartDigest: "0123", Changed: created},
		},
		"failed, and called superseded since": {
			recordSecret("3", map[string]string{"status": "superseded", InputsLabel: "3-abcdef-0123-x"}),
			&Record{Revision: 3, Status: "superseded", Own: true, Inputs: "abcdef", ChartDigest: "0123", Failed: true, Changed: created},
		},
		"rollback": {
			recordSecret("5", map[string]string{InputsLabel: "5-abcdef-0123", RollbackLabel: "5-3-fedcba"}),
			&Record{Revision: 5, Status: "deployed", Own: true, Inputs: "abcdef", ChartDigest: "0123", RolledBackTo: 3, Abandoned: "fedcba", Changed: created},
		},
		"rollback from and to revisions of the helm CLI": {
			recordSecret("5", map[string]string{InputsLabel: InputsValue(5, "", ""), RollbackLabel: RollbackValue(5, 3, "")}),
			&Record{Revision: 5, Status: "deployed", Own: true, RolledBackTo: 3, Changed: created},
		},
		"that failed": {
			recordSecret("5", map[string]string{InputsLabel: InputsValue(5, "", "") + FailedMark, RollbackLabel: RollbackValue(5, 3, "")}),
			&Record{Revision: 5, Status: "deployed", Own: true, Failed: true, RolledBackTo: 3, Changed: created},
		},
		"after a rollback": {
			recordSecret("6", map[string]string{InputsLabel: "6-abcdef-0123", RollbackLabel: "5-3-fedcba"}),
			&Record{Revision: 6, Status: "deployed", Own: true, Inputs: "abcdef", ChartDigest: "0123", Changed: created},
		},
		"of the helm CLI": {
			recordSecret("3", nil),
			&Record{Revision: 3, Status: "deployed", Changed: created},
		},
		"of the helm CLI, with our label carried over": {
			recordSecret("4", map[string]string{InputsLabel: "3-abcdef"}),
			&Record{Revision: 4, Status: "deployed", Changed: created},
		},
		"a label that begins alike": {
			recordSecret("3", map[string]string{InputsLabel: "31-abcdef"}),
			&Record{Revision: 3, Status: "deployed", Changed: created},
		},
		"pending": {
			recordSecret("1", map[string]string{"status": "pending-install", InputsLabel: "1-abcdef"}),
			&Record{Revision: 1, Status: "pending-install", Own: true, Inputs: "abcdef", Changed: created},
		},
		"written again": {
			recordSecret("3", map[string]string{"modifiedAt": "1767323105"}),
			&Record{Revision: 3, Status: "deployed", Changed: time.Unix(1767323105, 0)},
		},
		"no revision":   {recordSecret("latest", nil), nil},
		"not a release": {&metav1.PartialObjectMetadata{}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Of(tc.secret)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(Record{}, "Secret", "Controller")); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if got != nil && got.Secret != tc.secret {
				t.Error("the record does not know its Secret")
			}
		})
	}
}

func TestRecordNames(t *testing.T) {
	secret := recordSecret("12", nil)
	if got := SecretName("web", 12); got != secret.Name {
		t.Errorf("recordSecretName = %q, want %q", got, secret.Name)
	}
	if got, want := keyOf(secret), (cache.ObjectName{Namespace: "default", Name: "web"}); got != want {
		t.Errorf("recordKey = %s, want %s", got, want)
	}
}

func TestSlimRecord(t *testing.T) {
	secret := recordSecret("1", nil)
	secret.UID, secret.ResourceVersion = "u", "7"
	want := secret.DeepCopy()
	secret.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "helm"}}
	secret.Annotations = map[string]string{"a": "b"}
	got := Slim(&secret.ObjectMeta)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// TestHistory covers records in the store and records that were just written.
func TestHistory(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byRelease: func(object any) ([]string, error) {
		return []string{keyOf(object.(*metav1.PartialObjectMetadata)).String()}, nil
	}})
	r := &Index{views: overlay.Views[*metav1.PartialObjectMetadata]{"": overlay.New[*metav1.PartialObjectMetadata](indexer)}}
	release := cache.ObjectName{Namespace: "default", Name: "web"}
	if got := r.Latest(release); got != nil {
		t.Errorf("latest = %+v, want none", got)
	}
	at := func(secret *metav1.PartialObjectMetadata, version string) *metav1.PartialObjectMetadata {
		secret.ResourceVersion = version
		return secret
	}
	for _, secret := range []*metav1.PartialObjectMetadata{
		at(recordSecret("10", nil), "12"), at(recordSecret("9", nil), "11"), at(recordSecret("2", nil), "10"),
		at(recordSecret("odd", nil), "13"), at(recordSecret("0", nil), "14"), at(recordSecret("1000000001", nil), "15"),
	} {
		if err := indexer.Add(secret); err != nil {
			t.Fatal(err)
		}
	}
	r.views.In("default").Wrote(at(recordSecret("11", nil), "20"))
	r.views.In("default").Deleted(at(recordSecret("2", nil), "10"))
	var got []int
	for _, record := range r.History(release) {
		got = append(got, record.Revision)
	}
	if diff := cmp.Diff([]int{9, 10, 11}, got); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
	if got := r.Latest(release); got == nil || got.Revision != 11 {
		t.Errorf("latest = %+v, want revision 11", got)
	}
}

func TestLastGood(t *testing.T) {
	good := func(revision int, status string) *Record {
		return &Record{Revision: revision, Status: status, Own: true}
	}
	failed := func(revision int, status string) *Record {
		return &Record{Revision: revision, Status: status, Own: true, Failed: true}
	}
	rollback := func(revision, to int, status string) *Record {
		return &Record{Revision: revision, Status: status, Own: true, RolledBackTo: to}
	}
	tests := map[string]struct {
		history []*Record
		want    int
	}{
		"nothing":             {nil, 0},
		"a failed install":    {[]*Record{failed(1, "failed")}, 0},
		"a failed upgrade":    {[]*Record{good(1, "superseded"), good(2, "deployed"), failed(3, "failed")}, 2},
		"deployed, unhealthy": {[]*Record{good(1, "superseded"), good(2, "superseded"), good(3, "deployed")}, 2},
		"failures before":     {[]*Record{good(1, "superseded"), failed(2, "superseded"), failed(3, "failed"), failed(4, "failed")}, 1},
		"of another client":   {[]*Record{{Revision: 1, Status: "superseded"}, {Revision: 2, Status: "failed"}}, 1},
		"a failed rollback":   {[]*Record{good(1, "superseded"), good(2, "deployed"), rollback(3, 1, "failed")}, 1},
		"after rollbacks": {[]*Record{
			good(1, "superseded"), good(2, "superseded"), rollback(3, 1, "superseded"), failed(4, "failed"), rollback(5, 3, "deployed"), good(6, "failed"),
		}, 5},
		"an unhealthy rollback": {[]*Record{good(1, "superseded"), good(2, "superseded"), rollback(3, 1, "deployed")}, 1},
		"one rollback after the other": {[]*Record{
			good(1, "superseded"), good(2, "superseded"), good(3, "superseded"), rollback(4, 2, "superseded"), rollback(5, 1, "deployed"),
		}, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := 0
			var verified []Digest
			for _, record := range tc.history {
				verified = append(verified, Digest{Revision: record.Revision, Digest: "digest"})
			}
			if record := LastGood(tc.history, verified); record != nil {
				got = record.Revision
			}
			if got != tc.want {
				t.Errorf("last good revision is %d, want %d", got, tc.want)
			}
		})
	}
}

func TestDeployedRecord(t *testing.T) {
	entry := func(revision int, status string) *Record {
		return &Record{Revision: revision, Status: status, Own: true}
	}
	foreign := &Record{Revision: 2, Status: "failed"}
	late := &Record{Revision: 2, Status: "failed", Own: true, Failed: true, Unhealthy: true}
	verified := []Digest{{1, "one"}, {2, "two"}, {3, "three"}}
	tests := map[string]struct {
		history  []*Record
		revision int
		verified []Digest
		want     int
	}{
		"no records":                       {nil, 1, verified, 0},
		"no baseline":                      {[]*Record{entry(1, "deployed")}, 0, verified, 0},
		"the newest revision":              {[]*Record{entry(1, "superseded"), entry(2, "deployed")}, 2, verified, 2},
		"the newest revision, failed":      {[]*Record{entry(1, "failed")}, 1, verified, 1},
		"an older revision":                {[]*Record{entry(1, "superseded"), entry(2, "deployed")}, 1, verified, 0},
		"before a failed attempt":          {[]*Record{entry(1, "deployed"), entry(2, "failed")}, 1, verified, 1},
		"before two failed attempts":       {[]*Record{entry(1, "deployed"), entry(2, "failed"), entry(3, "failed")}, 1, verified, 1},
		"before an interrupted attempt":    {[]*Record{entry(1, "deployed"), entry(2, "pending-upgrade")}, 1, verified, 1},
		"before another client's attempt":  {[]*Record{entry(1, "deployed"), foreign}, 1, verified, 0},
		"before an unhealthy revision":     {[]*Record{entry(1, "superseded"), late}, 1, verified, 0},
		"an unhealthy revision":            {[]*Record{entry(1, "superseded"), late, entry(3, "failed")}, 2, verified, 2},
		"a failed attempt":                 {[]*Record{entry(1, "failed"), entry(2, "failed")}, 1, verified, 0},
		"its record is gone":               {[]*Record{entry(2, "failed")}, 1, verified, 0},
		"its record was changed by others": {[]*Record{entry(1, "deployed"), entry(2, "failed")}, 1, verified[1:], 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := 0
			if entry := Deployed(tc.history, tc.revision, tc.verified); entry != nil {
				got = entry.Revision
			}
			if got != tc.want {
				t.Errorf("revision %d, want %d", got, tc.want)
			}
		})
	}
}
