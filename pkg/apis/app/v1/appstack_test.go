// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/crd"
)

const file = "artifacts/kinds/appstack/crd.yaml"

// spec returns a spec with a backend, a frontend and more.
func spec(more string) string {
	return `{backend: {image: "backend:1"}, frontend: {image: "frontend:1"}` + more + `}`
}

func TestAppStackDefaults(t *testing.T) {
	crd.Load(t, file).TestDefaults(t, "shop", spec(""), map[string]any{
		"database": map[string]any{"version": "17", "storage": "10Gi"},
		"cache":    map[string]any{"enabled": true, "image": "redis:7-alpine", "replicas": int64(1)},
		"backend":  map[string]any{"image": "backend:1", "replicas": int64(1), "port": int64(8080)},
		"frontend": map[string]any{"image": "frontend:1", "replicas": int64(1), "port": int64(8080)},
	})
}

func TestAppStackAdmission(t *testing.T) {
	const label = "metadata.name must be a DNS-1035 label of at most 34 characters"
	tests := crd.Cases{
		{"the least", "shop", spec(""), "", ""},
		{
			"the most", strings.Repeat("a", 34), `{database: {version: "18", storage: 99999Gi},
				cache: {enabled: false, image: "r.example.com:5000/a/b:c", replicas: 100},
				backend: {image: "r.example.com:5000/a/b:c", replicas: 100, port: 65535}, frontend: {image: x, replicas: 100, port: 1}}`, "", "",
		},
		{"no spec", "shop", `null`, "spec", "Required value"},
		{"no backend", "shop", `{frontend: {image: x}}`, "spec.backend", "Required value"},
		{"no frontend", "shop", `{backend: {image: x}}`, "spec.frontend", "Required value"},
		{"no image of the backend", "shop", `{backend: {}, frontend: {image: x}}`, "spec.backend.image", "Required value"},
		{"an empty image", "shop", `{backend: {image: ""}, frontend: {image: x}}`, "spec.backend.image", "at least 1"},
		{"an image with a space", "shop", `{backend: {image: x}, frontend: {image: "a b"}}`, "spec.frontend.image", ": must be an image reference"},
		{"a cache with an image that is none", "shop", spec(`, cache: {image: "a b"}`), "spec.cache.image", ": must be an image reference"},
		{"no replicas", "shop", `{backend: {image: x, replicas: 0}, frontend: {image: x}}`, "spec.backend.replicas", "greater than or equal to 1"},
		{"too many replicas", "shop", spec(`, cache: {replicas: 101}`), "spec.cache.replicas", "less than or equal to 100"},
		{"port 0", "shop", `{backend: {image: x, port: 0}, frontend: {image: x}}`, "spec.backend.port", "greater than or equal to 1"},
		{"a port too high", "shop", `{backend: {image: x}, frontend: {image: x, port: 65536}}`, "spec.frontend.port", "less than or equal to 65535"},
		{"an unknown version", "shop", spec(`, database: {version: "11"}`), "spec.database.version", "Unsupported value"},
		{"storage in another unit", "shop", spec(`, database: {storage: 10Mi}`), "spec.database.storage", "must be a size in Gi"},
		{"storage too long", "shop", spec(`, database: {storage: "11111111111111111Gi"}`), "spec.database.storage", "16"},
		{"a name too long", strings.Repeat("a", 35), spec(""), "metadata", label},
		{"a name with a dot", "shop.example", spec(""), "metadata", label},
		{"a name beginning with a digit", "1shop", spec(""), "metadata", label},
	}
	crd.Load(t, file).TestAdmission(t, tests)
}

func TestAppStackColumns(t *testing.T) {
	crd.Load(t, file).TestColumns(t, "shop", spec(""), map[string]any{"phase": "Deploying", "conditions": []any{
		map[string]any{"type": "Ready", "status": "False", "message": "spec.cache: pods start"},
	}},
		map[string]any{"Name": "shop", "Phase": "Deploying", "Ready": "False", "Message": "spec.cache: pods start"})
}
