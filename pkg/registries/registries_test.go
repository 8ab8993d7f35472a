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
		// want is part of the error; empty without an error.
		want string
	}{
		{"host", "registry.example.com", ""},
		{"host and port", "registry.example.com:5000", ""},
		{"host without dots and a port", "registry:5000", ""},
		{"loopback", "localhost", ""},
		{"IPv6 host", "[fd00::1]:5000", ""},
		{"host and path", "registry.example.com/team/web", ""},
		{"surrounding blanks", "  quay.io ", ""},
		{"Docker Hub", "docker.io/library", ""},
		{"Docker Hub by its old name", "index.docker.io/library", ""},
		{"empty", "", "it is empty"},
		{"blank", " ", "it is empty"},
		{"no host", "team", "write docker.io/team"},
		{"path without a host", "team/web", "write docker.io/team/web"},
		{"scheme", "https://quay.io", "without a scheme"},
		{"wildcard", "*.example.com", "use a host"},
		{"tag", "quay.io/team/web:v1", "use a host"},
		{"digest", "quay.io/web@sha256:" + strings.Repeat("0f", 32), "use a host"},
		{"trailing slash", "quay.io/", "use a host"},
		{"leading slash", "/team", "use a host"},
		{"path in capitals", "quay.io/Team", "use a host"},
		{"inner blank", "quay.io/a b", "use a host"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse([]string{"docker.io", test.entry})
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0f", 32)
	tests := []struct {
		name, image string
		allowed     []string
		// want is the normalized name; empty if the image is not allowed.
		want string
	}{
		{"no list", "anything.example.com/at/all:v1", nil, "anything.example.com/at/all"},
		{"official image", "nginx:1.27", []string{"docker.io/library"}, "docker.io/library/nginx"},
		{"official image, Docker Hub allowed", "nginx", []string{"docker.io"}, "docker.io/library/nginx"},
		{"official image by its old name", "index.docker.io/nginx", []string{"docker.io"}, "docker.io/library/nginx"},
		{"official image by a host of Docker Hub", "registry-1.docker.io/library/nginx", []string{"docker.io/library"}, "docker.io/library/nginx"},
		{"list with a host of Docker Hub", "nginx", []string{"Registry.Hub.Docker.com/library"}, "docker.io/library/nginx"},
		{"default port", "quay.io:443/team/web", []string{"quay.io"}, "quay.io/team/web"},
		{"list with the default port", "quay.io/team/web", []string{"quay.io:443/team"}, "quay.io/team/web"},
		{"port that ends like the default one", "quay.io:1443/team/web", []string{"quay.io"}, ""},
		{"list with the old name", "nginx", []string{"index.docker.io/library"}, "docker.io/library/nginx"},
		{"image of a user", "team/web:v1", []string{"docker.io/library"}, ""},
		{"image of a user, Docker Hub allowed", "team/web:v1", []string{"docker.io"}, "docker.io/team/web"},
		{"host", "quay.io/team/web:v1", []string{"quay.io"}, "quay.io/team/web"},
		{"second entry", "quay.io/team/web:v1", []string{"docker.io", "quay.io"}, "quay.io/team/web"},
		{"host in capitals", "Quay.IO/team/web", []string{"quay.io"}, "quay.io/team/web"},
		{"list in capitals", "quay.io/team/web", []string{"Quay.IO"}, "quay.io/team/web"},
		{"tag and digest", "quay.io/web:v1" + digest, []string{"quay.io"}, "quay.io/web"},
		{"path", "quay.io/team/web", []string{"quay.io/team"}, "quay.io/team/web"},
		{"a single image", "quay.io/team/web", []string{"quay.io/team/web"}, "quay.io/team/web"},
		{"longer path segment", "quay.io/teamwork/web", []string{"quay.io/team"}, ""},
		{"host with another suffix", "quay.io.example.com/web", []string{"quay.io"}, ""},
		{"subdomain of the host", "my.quay.io/web", []string{"quay.io"}, ""},
		{"another port", "registry.example.com:5000/web", []string{"registry.example.com"}, ""},
		{"host and port", "registry.example.com:5000/web", []string{"registry.example.com:5000"}, "registry.example.com:5000/web"},
		{"IPv6 host", "[fd00::1]:5000/web:v1", []string{"[fd00::1]:5000"}, "[fd00::1]:5000/web"},
		{"image name that looks like a host", "quay.io", []string{"quay.io"}, ""},
		{"invalid reference", "nginx latest", []string{"docker.io"}, ""},
		{"image ID", strings.Repeat("0f", 32), []string{"docker.io"}, ""},
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
				t.Errorf("the error does not name the image: %v", err)
			}
		})
	}
}
