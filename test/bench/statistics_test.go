// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	tests := map[string]struct {
		values []float64
		want   string
	}{
		"no round":             {want: "0.0 s"},
		"one round":            {values: []float64{2}, want: "2.0 s"},
		"odd number of rounds": {values: []float64{9, 1, 2}, want: "2.0 s (1.0 to 9.0)"},
		"even number":          {values: []float64{4, 1, 2, 3}, want: "2.5 s (1.0 to 4.0)"},
		"equal when rounded":   {values: []float64{1.01, 1.02}, want: "1.0 s"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := spreadOf(test.values).text(1, " s"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// installs returns figures of rounds in which the installs took these seconds.
func installs(seconds ...int) []figures {
	var rounds []figures
	for _, s := range seconds {
		took := time.Duration(s) * time.Second
		rounds = append(rounds, figures{install: took, upgrade: took})
	}
	return rounds
}

func TestRatioComparesTimesOfTheSameRound(t *testing.T) {
	r := result{figures: map[string][]figures{"new": installs(2, 40, 9), "old": installs(1, 20, 3)}}

	got := r.ratio("new", "old", func(f figures) time.Duration { return f.install })

	if want := (spread{median: 2, least: 2, most: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestCheckFloor(t *testing.T) {
	tests := map[string]struct {
		floor, operator []figures
		wantErr         string
	}{
		"floor is faster":              {floor: installs(1, 2), operator: installs(2, 3)},
		"floor is slower in one round": {floor: installs(1, 5, 1), operator: installs(2, 3, 2)},
		"floor is slower":              {floor: installs(3, 4), operator: installs(2, 3), wantErr: "200 DemoApps: install: the floor was slower"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := result{size: 200, figures: map[string][]figures{floorName: test.floor, operatorName: test.operator}}

			err := r.checkFloor()

			if test.wantErr == "" && err != nil || test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
				t.Errorf("got %v, want %q", err, test.wantErr)
			}
		})
	}
}

func TestParseSizes(t *testing.T) {
	tests := map[string]struct {
		text string
		want []size
	}{
		"with and without rounds": {text: "200x5, 1000", want: []size{{apps: 200, rounds: 5}, {apps: 1000, rounds: 1}}},
		"no number":               {text: "many"},
		"no rounds":               {text: "200x"},
		"zero rounds":             {text: "200x0"},
		"negative":                {text: "-1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseSizes(test.text)
			if !slices.Equal(got, test.want) || (err == nil) != (test.want != nil) {
				t.Errorf("got %v and error %v, want %v", got, err, test.want)
			}
		})
	}
}

func TestEachRoundBeginsWithAnotherContender(t *testing.T) {
	contenders := []contender{{name: "a"}, {name: "b"}}
	for round, want := range []string{"a b", "b a", "a b"} {
		ordered := inOrder(contenders, round)
		if got := ordered[0].name + " " + ordered[1].name; got != want {
			t.Errorf("round %d: got %q, want %q", round, got, want)
		}
	}
}
