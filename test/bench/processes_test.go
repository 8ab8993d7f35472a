// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const rest = " S 7 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0"
	tests := map[string]struct {
		text      string
		want      processStat
		wantError bool
	}{
		"plain name":            {text: "42 (etcd)" + rest, want: processStat{pid: 42, parent: 7, name: "etcd", cpu: 2 * time.Second}},
		"name with parentheses": {text: "42 (a b) (c)" + rest, want: processStat{pid: 42, parent: 7, name: "a b) (c", cpu: 2 * time.Second}},
		"no name":               {text: "42", wantError: true},
		"too short":             {text: "42 (etcd) S 7", wantError: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(test.text)

			if got != test.want || (err != nil) != test.wantError {
				t.Errorf("got %+v and error %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestFamilyCPU(t *testing.T) {
	stats := []processStat{
		{pid: 1, name: "init", cpu: time.Hour},
		{pid: 10, parent: 1, name: "bench", cpu: time.Second},
		{pid: 11, parent: 10, name: "localcluster", cpu: time.Second},
		{pid: 12, parent: 11, name: "etcd", cpu: 2 * time.Second},
		{pid: 13, parent: 11, name: "etcd", cpu: 3 * time.Second},
		{pid: 20, parent: 1, name: "etcd", cpu: time.Minute},
	}

	got := familyCPU(stats, 10)

	if want := map[string]time.Duration{ownName: time.Second, "localcluster": time.Second, "etcd": 5 * time.Second}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestGrowth(t *testing.T) {
	before := map[string]time.Duration{"etcd": time.Second, "ended": time.Second}
	after := map[string]time.Duration{"etcd": 3 * time.Second, "operator": time.Second}

	got := growth(before, after)

	if want := map[string]time.Duration{"etcd": 2 * time.Second, "operator": time.Second}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
