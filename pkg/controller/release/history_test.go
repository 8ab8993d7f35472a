// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

func TestRemember(t *testing.T) {
	entry := func(minute int, outcome releasev1alpha1.HistoryOutcome, revision, count int64) releasev1alpha1.HistoryEntry {
		return releasev1alpha1.HistoryEntry{
			Time: metav1.NewTime(began.Add(time.Duration(minute) * time.Minute)), Action: releasev1alpha1.HistoryUpgrade,
			Outcome: outcome, Revision: revision, Count: count,
		}
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
		{"oldest entry is dropped", full, entry(6, ok, 6, 0), append([]releasev1alpha1.HistoryEntry{entry(6, ok, 6, 0)}, full[:4]...)},
		{"repetition drops no entry", full, entry(6, ok, 5, 0), append([]releasev1alpha1.HistoryEntry{entry(6, ok, 5, 2)}, full[1:]...)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "history", test.want, remember(test.history, test.next))
		})
	}
}
