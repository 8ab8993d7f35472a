// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package images_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/pkg/controller/kinds/webapp/images"
)

var (
	digestA = "sha256:" + strings.Repeat("a", 64)
	digestB = "sha256:" + strings.Repeat("b", 64)
)

func TestMatch(t *testing.T) {
	tests := []struct {
		name    string
		blocked []string
		image   string
		// want is the entry that blocks the image, or "".
		want string
	}{
		{name: "empty list", image: "nginx"},
		{name: "repository, any tag", blocked: []string{"nginx"}, image: "nginx:1.27", want: "nginx"},
		{name: "repository, no tag", blocked: []string{"nginx"}, image: "nginx", want: "nginx"},
		{name: "repository, digest", blocked: []string{"nginx"}, image: "nginx@" + digestA, want: "nginx"},
		{name: "repository, another spelling", blocked: []string{"docker.io/library/nginx"}, image: "index.docker.io/nginx:1", want: "docker.io/library/nginx"},
		{name: "host in upper case", blocked: []string{"registry.example.com/web"}, image: "Registry.Example.com/web:1", want: "registry.example.com/web"},
		{name: "default port", blocked: []string{"quay.io/team/bad"}, image: "quay.io:443/team/bad:1", want: "quay.io/team/bad"},
		{name: "default port with zeros", blocked: []string{"quay.io/team/bad"}, image: "quay.io:00443/team/bad:1", want: "quay.io/team/bad"},
		{name: "default port of the entry", blocked: []string{"quay.io:443/team/bad"}, image: "quay.io/team/bad", want: "quay.io:443/team/bad"},
		{name: "host of Docker Hub", blocked: []string{"nginx"}, image: "registry-1.docker.io/library/nginx", want: "nginx"},
		{name: "host and port of Docker Hub", blocked: []string{"nginx"}, image: "Registry-1.docker.io:443/nginx:1", want: "nginx"},
		{name: "former host of Docker Hub", blocked: []string{"team/web"}, image: "registry.hub.docker.com/team/web", want: "team/web"},
		{name: "port of Docker Hub", blocked: []string{"nginx"}, image: "docker.io:443/nginx", want: "nginx"},
		{name: "repository with a longer name", blocked: []string{"nginx"}, image: "nginx-unprivileged"},
		{name: "repository below", blocked: []string{"registry.example.com/team"}, image: "registry.example.com/team/web"},
		{name: "the same path on another host", blocked: []string{"nginx"}, image: "quay.io/library/nginx"},
		{name: "another port", blocked: []string{"registry.example.com:5000/web"}, image: "registry.example.com/web"},
		{name: "tag", blocked: []string{"nginx:1.27"}, image: "docker.io/library/nginx:1.27", want: "nginx:1.27"},
		{name: "another tag", blocked: []string{"nginx:1.27"}, image: "nginx:1.27.1"},
		{name: "tag beside a digest", blocked: []string{"nginx:1.27"}, image: "nginx:1.27@" + digestA, want: "nginx:1.27"},
		{name: "latest without a tag", blocked: []string{"nginx:latest"}, image: "nginx", want: "nginx:latest"},
		{name: "latest with a digest only", blocked: []string{"nginx:latest"}, image: "nginx@" + digestA},
		{name: "digest", blocked: []string{"nginx@" + digestA}, image: "nginx@" + digestA, want: "nginx@" + digestA},
		{name: "digest with another tag", blocked: []string{"nginx:1@" + digestA}, image: "nginx:2@" + digestA, want: "nginx:1@" + digestA},
		{name: "another digest", blocked: []string{"nginx@" + digestA}, image: "nginx@" + digestB},
		{name: "no digest", blocked: []string{"nginx@" + digestA}, image: "nginx:1.27"},
		{name: "no reference", blocked: []string{"nginx"}, image: "NGINX::"},
		{name: "the first entry", blocked: []string{"redis", " nginx:1 ", "nginx"}, image: "nginx:1", want: "nginx:1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			list, err := images.ParseBlocklist(test.blocked)
			if err != nil {
				t.Fatal(err)
			}

			entry, blocked := list.Match(test.image)

			if entry != test.want || blocked != (test.want != "") {
				t.Errorf("Match(%q) = %q, %t, want %q", test.image, entry, blocked, test.want)
			}
		})
	}
}

func TestParseBlocklistErrors(t *testing.T) {
	for _, entry := range []string{"", "https://nginx", "NGINX", "nginx:", "nginx@sha256:1"} {
		if _, err := images.ParseBlocklist([]string{"redis", entry}); err == nil || !strings.Contains(err.Error(), `"`+entry+`" is not an image reference: `) {
			t.Errorf("error for %q is %v", entry, err)
		}
	}
}

func TestEntriesAreUnique(t *testing.T) {
	list, err := images.ParseBlocklist([]string{"nginx", " redis", "nginx "})
	if err != nil {
		t.Fatal(err)
	}

	if got, want := list.Entries(), []string{"nginx", "redis"}; !slices.Equal(got, want) {
		t.Errorf("entries are %q, want %q", got, want)
	}
}
