// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

func TestRemember(t *testing.T) {
	entry := func(minute int, outcome releasev1alpha1.HistoryOutcome, revision, count int64) releasev1alpha1.HistoryEntry {
		return releasev1alpha1.HistoryEntry{
			Time: metav1.NewTime(began.Add(time.Duration(minute) * time.Minute)), Action: releasev1alpha1.HistoryUpgrade,
			Outcome: outcome, Revision: revision, Count: count,
		}
	}
	changed := func(entry releasev1alpha1.HistoryEntry, paths ...string) []releasev1alpha1.HistoryEntry {
		entry.Changed = paths
		return []releasev1alpha1.HistoryEntry{entry}
	}
	ok, failed := releasev1alpha1.HistorySucceeded, releasev1alpha1.HistoryFailed
	full := []releasev1alpha1.HistoryEntry{entry(5, ok, 5, 0), entry(4, ok, 4, 0), entry(3, ok, 3, 0), entry(2, ok, 2, 0), entry(1, ok, 1, 0)}
	tests := []struct {
		name    string
		history []releasev1alpha1.HistoryEntry
		next    releasev1alpha1.HistoryEntry
		want    []releasev1alpha1.HistoryEntry
	}{
		{"the first", nil, entry(1, ok, 1, 0), []releasev1alpha1.HistoryEntry{entry(1, ok, 1, 0)}},
		{"the newest comes first", full[4:], entry(2, failed, 2, 0), []releasev1alpha1.HistoryEntry{entry(2, failed, 2, 0), entry(1, ok, 1, 0)}},
		{"repeated", []releasev1alpha1.HistoryEntry{entry(2, failed, 2, 0)}, entry(3, failed, 2, 0), []releasev1alpha1.HistoryEntry{entry(3, failed, 2, 2)}},
		{"repeated again", []releasev1alpha1.HistoryEntry{entry(3, failed, 2, 2)}, entry(4, failed, 2, 0), []releasev1alpha1.HistoryEntry{entry(4, failed, 2, 3)}},
		{"other changes", changed(entry(2, failed, 2, 0), "values.a"), changed(entry(3, failed, 2, 0), "values.b")[0], append(changed(entry(3, failed, 2, 0), "values.b"), changed(entry(2, failed, 2, 0), "values.a")...)},
		{"the same changes", changed(entry(2, failed, 2, 0), "values.a"), changed(entry(3, failed, 2, 0), "values.a")[0], changed(entry(3, failed, 2, 2), "values.a")},
		{"oldest entry is dropped", full, entry(6, ok, 6, 0), append([]releasev1alpha1.HistoryEntry{entry(6, ok, 6, 0)}, full[:4]...)},
		{"repetition drops no entry", full, entry(6, ok, 5, 0), append([]releasev1alpha1.HistoryEntry{entry(6, ok, 5, 2)}, full[1:]...)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "history", test.want, remember(test.history, test.next))
		})
	}
}

// TestLateRevisionKeepsItsChanges: the entry of a revision that was not healthy in time names
// what the revision changed, as the entry of its success does.
func TestLateRevisionKeepsItsChanges(t *testing.T) {
	made := releasev1alpha1.HistoryEntry{
		Action: releasev1alpha1.HistoryUpgrade, Outcome: releasev1alpha1.HistorySucceeded, Revision: 2,
		Changed: []string{"values.image"}, ChangedMore: 3,
	}
	status := releasev1alpha1.ReleaseStatus{
		DeployedRelease: &releasev1alpha1.DeployedRelease{Revision: 2}, History: []releasev1alpha1.HistoryEntry{made},
	}

	recordLate(&status, Facts{Desired: Desired{Release: helm.Release{Chart: testChart(t)}}}, false)

	expect.Equal(t, "outcome", releasev1alpha1.HistoryFailed, status.History[0].Outcome)
	expect.Equal(t, "changes", made.Changed, status.History[0].Changed)
	expect.Equal(t, "further changes", made.ChangedMore, status.History[0].ChangedMore)
}
