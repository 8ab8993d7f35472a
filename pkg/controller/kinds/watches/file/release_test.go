// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/expect"
)

func TestParseRelease(t *testing.T) {
	parsed, err := ParseRelease([]byte(`{"suspend": true, "waitForReady": true, "maxHistory": 3, "timeout": "2m",
		"upgradeWindow": {"schedule": "0 3 * * *", "duration": "1h"},
		"waitFor": [{"apiVersion": "database.example.com/v1", "kind": "PostgreSQL", "name": "db"}],
		"valuesFrom": [{"kind": "Secret", "name": "keys", "optional": true}]}`))
	expect.NoError(t, err)
	history := int32(3)
	want := &Release{
		Policy: releasev1alpha1.ReleasePolicy{
			Suspend: true, WaitForReady: true, MaxHistory: &history, Timeout: &metav1.Duration{Duration: 2 * time.Minute},
			UpgradeWindow: &releasev1alpha1.UpgradeWindow{Schedule: "0 3 * * *", Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "UTC"},
		},
		WaitFor:    []releasev1alpha1.DependencyReference{{APIVersion: "database.example.com/v1", Kind: "PostgreSQL", Name: "db"}},
		ValuesFrom: []releasev1alpha1.ValuesReference{{Kind: "Secret", Name: "keys", Optional: true}},
	}
	if diff := cmp.Diff(want, parsed); diff != "" {
		t.Errorf("release (-want +got):\n%s", diff)
	}
}

func TestParseReleaseErrors(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"unknown field":   {`{"suspended": true}`, "release.suspended: is not a known field; did you mean suspend?"},
		"list":            {`[]`, "release: must be an object (key: value), got a list"},
		"several":         {`{"timeout": "often", "maxHistory": 0}`, "release.timeout: \"often\" is not a duration; use for example 5m\nrelease.maxHistory: must be a whole number from 1 to 100, got 0"},
		"window":          {`{"upgradeWindow": {"schedule": "often", "duration": "1h"}}`, `release.upgradeWindow: schedule "often" cannot be understood`},
		"half a window":   {`{"upgradeWindow": {"schedule": "@daily"}}`, "release.upgradeWindow: must have a schedule and a duration"},
		"dependency":      {`{"waitFor": [{"kind": "PostgreSQL", "name": "db"}]}`, "release.waitFor[0]: must have apiVersion, kind and name"},
		"kind of values":  {`{"valuesFrom": [{"kind": "Pod", "name": "a"}]}`, "release.valuesFrom[0].kind: "},
		"name of values":  {`{"valuesFrom": [{"kind": "Secret", "name": "../a"}]}`, "release.valuesFrom[0].name: "},
		"too many values": {`{"valuesFrom": [` + strings.Repeat("{},", 16) + `{}]}`, "release.valuesFrom: has 17 items, and may have 16"},
		"too large":       {`{"a": "` + strings.Repeat("x", 64<<10) + `"}`, "release: has 65545 bytes, and may have 65536"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRelease([]byte(test.text))
			if !strings.HasPrefix(fmt.Sprint(err), test.want) {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

// TestReleaseGoesOverEntry: a field that the release does not set comes from the entry.
func TestReleaseGoesOverEntry(t *testing.T) {
	three, five := int32(3), int32(5)
	entry := releasev1alpha1.ReleasePolicy{MaxHistory: &five, Drift: &releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftWarn}}
	expect.Equal(t, "without a release", entry, (*Release)(nil).Over(entry))
	got := (&Release{Policy: releasev1alpha1.ReleasePolicy{MaxHistory: &three}}).Over(entry)
	expect.Equal(t, "policy", releasev1alpha1.ReleasePolicy{MaxHistory: &three, Drift: entry.Drift}, got)
}
