// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"io/fs"
	"testing"
)

func TestPodNamespace(t *testing.T) {
	tests := []struct {
		name string
		env  string
		file string
		want string
	}{
		{name: "pod spec", env: "a", file: "b", want: "a"},
		{name: "service account", file: "b\n", want: "b"},
		{name: "empty file", file: " "},
		{name: "no cluster"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := podNamespace(
				func(string) string { return test.env },
				func(string) ([]byte, error) {
					if test.file == "" {
						return nil, fs.ErrNotExist
					}
					return []byte(test.file), nil
				})
			if got != test.want {
				t.Errorf("podNamespace() = %q, want %q", got, test.want)
			}
		})
	}
}
