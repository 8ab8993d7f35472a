// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"testing"

	"github.com/example/demoapp-controller/test/expect"
)

func TestCompleter(t *testing.T) {
	t.Parallel()
	expect.Equal(t, "arguments of the plugin", []string{"get", "de"}, completing("/bin/kubectl-demoapp", []string{"get", "de"}))
	expect.Equal(t, "arguments of the completer", []string{"__complete", "get", "de"}, completing("/bin/kubectl_complete-demoapp", []string{"get", "de"}))
}

func TestFitting(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		screen int
		widths []int
		want   []int
	}{
		{"no screen", 0, []int{100, 100}, []int{100, 100}},
		{"fits", 80, []int{10, 20, 100}, []int{10, 20, 100}},
		{"one wide column", 80, []int{100, 10, 100}, []int{57, 10, 100}},
		{"two wide columns", 80, []int{100, 100, 10}, []int{33, 34, 10}},
		{"too small", 20, []int{9, 9, 9, 9}, []int{5, 5, 5, 9}},
		{"no row", 80, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			expect.Equal(t, "widths", test.want, (&table{screen: screen{width: test.screen}, widths: test.widths}).fitting())
		})
	}
}
