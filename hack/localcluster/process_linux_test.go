// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	rest := strings.Repeat(" 0", 18) + " 4711 99 98"
	tests := []struct {
		name, stat string
		want       processStatus
	}{
		{name: "plain", stat: "42 (etcd) S" + rest, want: processStatus{started: "4711"}},
		{name: "blanks and parentheses in the name", stat: "42 (a) R (b c) S" + rest, want: processStatus{started: "4711"}},
		{name: "ended, not waited for", stat: "42 (etcd) Z" + rest, want: processStatus{started: "4711", ended: true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseStat([]byte(test.stat))
			if got != test.want || err != nil {
				t.Errorf("got %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
	for _, stat := range []string{"", "42 (etcd) S 1", "no parenthesis"} {
		if got, err := parseStat([]byte(stat)); err == nil {
			t.Errorf("%q gives %+v", stat, got)
		}
	}
}
