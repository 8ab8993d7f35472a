// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package registries

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, entry string
		// says is part of the error; empty for none.
		says string
	}{
		{"host", "registry.example.com", ""},
		{"host and port", "registry.example.com:5000", ""},
		{"host without dots and a port", "registry:5000", ""},
		{"this machine", "localhost", ""},
		{"IPv6 host", "[fd00::1]:5000", ""},
		{"host and path", "registry.example.com/team/web", ""},
		{"blanks around it", "  quay.io ", ""},
		{"Docker Hub", "docker.io/library", ""},
		{"Docker Hub by its old name", "index.docker.io/library", ""},
		{"empty", "", "it is empty"},
		{"blank", " ", "it is empty"},
		{"a word", "team", "write docker.io/team"},
		{"a word and a path", "team/web", "write docker.io/team/web"},
		{"scheme", "https://quay.io", "without a scheme"},
		{"wildcard", "*.example.com", "use a host"},
		{"tag", "quay.io/team/web:v1", "use a host"},
		{"digest", "quay.io/web@sha256:" + strings.Repeat("0f", 32), "use a host"},
		{"slash at the end", "quay.io/", "use a host"},
		{"slash at the beginning", "/team", "use a host"},
		{"path in capitals", "quay.io/Team", "use a host"},
		{"blank in it", "quay.io/a b", "use a host"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse([]string{"docker.io", test.entry})
			switch {
			case test.says == "" && err != nil:
				t.Error(err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("got %v, want an error that says %q", err, test.says)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0f", 32)
	tests := []struct {
		name, image string
		allowed     []string
		// want is the whole name; empty for one that is refused.
		want string
	}{
		{"no list", "anything.example.com/at/all:v1", nil, "anything.example.com/at/all"},
		{"official image", "nginx:1.27", []string{"docker.io/library"}, "docker.io/library/nginx"},
		{"official image of the whole hub", "nginx", []string{"docker.io"}, "docker.io/library/nginx"},
		{"official image by its old name", "index.docker.io/nginx", []string{"docker.io"}, "docker.io/library/nginx"},
		{"list with the old name", "nginx", []string{"index.docker.io/library"}, "docker.io/library/nginx"},
		{"image of a user", "team/web:v1", []string{"docker.io/library"}, ""},
		{"image of a user of the whole hub", "team/web:v1", []string{"docker.io"}, "docker.io/team/web"},
		{"host", "quay.io/team/web:v1", []string{"quay.io"}, "quay.io/team/web"},
		{"second entry", "quay.io/team/web:v1", []string{"docker.io", "quay.io"}, "quay.io/team/web"},
		{"host in capitals", "Quay.IO/team/web", []string{"quay.io"}, "quay.io/team/web"},
		{"list in capitals", "quay.io/team/web", []string{"Quay.IO"}, "quay.io/team/web"},
		{"tag and digest", "quay.io/web:v1" + digest, []string{"quay.io"}, "quay.io/web"},
		{"path", "quay.io/team/web", []string{"quay.io/team"}, "quay.io/team/web"},
		{"a single image", "quay.io/team/web", []string{"quay.io/team/web"}, "quay.io/team/web"},
		{"path that only begins alike", "quay.io/teamwork/web", []string{"quay.io/team"}, ""},
		{"host that only begins alike", "quay.io.example.com/web", []string{"quay.io"}, ""},
		{"host that only ends alike", "my.quay.io/web", []string{"quay.io"}, ""},
		{"another port", "registry.example.com:5000/web", []string{"registry.example.com"}, ""},
		{"the port", "registry.example.com:5000/web", []string{"registry.example.com:5000"}, "registry.example.com:5000/web"},
		{"IPv6 host", "[fd00::1]:5000/web:v1", []string{"[fd00::1]:5000"}, "[fd00::1]:5000/web"},
		{"a name that looks like a host", "quay.io", []string{"quay.io"}, ""},
		{"no reference", "nginx latest", []string{"docker.io"}, ""},
		{"an identifier", strings.Repeat("0f", 32), []string{"docker.io"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			list, err := Parse(test.allowed)
			if err != nil {
				t.Fatal(err)
			}
			name, err := list.Check(test.image)
			if name != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v; want %q", name, err, test.want)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "image ") {
				t.Errorf("the error does not say what it is about: %v", err)
			}
		})
	}
}
