// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package images_test

import (
	"strings"
	"testing"

	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/test/expect"
)

func TestOf(t *testing.T) {
	digest := "registry.example.com/redis@sha256:" + strings.Repeat("0f", 32)
	tests := []struct {
		name, registry string
		replaced       map[string]string
		image, want    string
	}{
		{"no table", "", nil, images.Redis, images.Redis},
		{"official image in a mirror", "registry.example.com:5000", nil, images.Redis, "registry.example.com:5000/library/redis:7-alpine"},
		{"other image in a mirror with a path", "registry.example.com/hub", nil, images.Rclone, "registry.example.com/hub/rclone/rclone:1.69"},
		{"image of a database", "registry.example.com", nil, images.PostgreSQL("17"), "registry.example.com/library/postgres:17"},
		{"image of a mysql", "registry.example.com", nil, images.MySQL("8.0.40"), "registry.example.com/library/mysql:8.0.40"},
		{"digest", "", map[string]string{images.Redis: digest}, images.Redis, digest},
		{"digest beside a mirror", "registry.example.com", map[string]string{images.Redis: digest}, images.Redis, digest},
		{"mirror beside a digest", "registry.example.com", map[string]string{images.Redis: digest}, images.Memcached, "registry.example.com/library/memcached:1.6.32-alpine"},
		{"image of a user", "registry.example.com", nil, "nginx:1.28", "nginx:1.28"},
		{"mysql with an invalid tag", "registry.example.com", nil, "mysql:a b", "mysql:a b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table, err := images.Parse(tt.registry, tt.replaced)
			expect.NoError(t, err)

			expect.Equal(t, "image", tt.want, table.Of(tt.image))
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name, registry string
		replaced       map[string]string
		want           string
	}{
		{"mirror with a scheme", "https://registry.example.com", nil, `"https://registry.example.com" is not a registry: use a host`},
		{"mirror without a host", "team", nil, "write docker.io/team"},
		{"image of nobody", "", map[string]string{"httpd:2": "a/b:1"}, `"httpd:2" is none of the operator's images: nginx:1.27-alpine, redis:7-alpine`},
		{"no image", "", map[string]string{images.Redis: "https://a/b"}, `"https://a/b", in place of redis:7-alpine: is not an image`},
		{"empty", "", map[string]string{images.Redis: ""}, "is not an image"},
		{"neither tag nor digest", "", map[string]string{images.Redis: "registry.example.com/redis"}, "names neither a tag nor a digest"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := images.Parse(tt.registry, tt.replaced)

			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
