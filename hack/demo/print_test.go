// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var someOutcomes = []outcome{
	{title: "Take off", took: 1240 * time.Millisecond, tried: true, remarks: []string{"corrected after 40ms"}},
	{title: "Token", took: 300 * time.Millisecond, tried: true, err: errors.New("no")},
	{title: "Land"},
}

func TestSummary(t *testing.T) {
	var out bytes.Buffer
	(&screen{out: &out}).summary(someOutcomes)
	want := `
Summary
  1  ok         1.2s   Take off  corrected after 40ms
  2  FAILED     300ms  Token
  3  not tried  -      Land

  1 of 3 steps in 1.5s.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSummaryOnATerminal asserts that colors change neither the text nor the columns.
func TestSummaryOnATerminal(t *testing.T) {
	var plain, styled bytes.Buffer
	(&screen{out: &plain}).summary(someOutcomes)
	(&screen{out: &styled, styled: true}).summary(someOutcomes)
	bare := strings.NewReplacer(bold, "", dim, "", red, "", green, "", cyan, "", reset, "").Replace(styled.String())
	if diff := cmp.Diff(plain.String(), bare); diff != "" {
		t.Errorf("(-plain +styled without the codes):\n%s", diff)
	}
	if want := green + "ok" + reset; strings.Count(styled.String(), want) != 1 {
		t.Errorf("want %q once in %q", want, styled.String())
	}
}

func TestFailure(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string
	}{
		"an expectation": {
			err:  &unmet{expected: "rain", seen: "sun"},
			want: "\n  Did not happen\n    expected: rain\n    seen:     sun\n",
		},
		"another error": {
			err:  errors.New("the bridge is up"),
			want: "\n  Did not happen: the bridge is up\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			(&screen{out: &out}).failure(test.err)
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadable(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                       "0s",
		1499 * time.Microsecond: "1ms",
		43 * time.Millisecond:   "43ms",
		1240 * time.Millisecond: "1.2s",
		83 * time.Second:        "1m23s",
	} {
		if got := readable(d); got != want {
			t.Errorf("readable(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"nothing":           {text: " ", want: nil},
		"fits":              {text: "one two", want: []string{"one two"}},
		"breaks at a space": {text: "one two three four", want: []string{"one two", "three four"}},
		"a long word stays": {text: "a extraordinarily b", want: []string{"a", "extraordinarily", "b"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, wrap(test.text, 10)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
