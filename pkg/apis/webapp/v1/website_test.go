// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/crd"
)

const file = "artifacts/kinds/website/crd.yaml"

func TestWebsiteDefaults(t *testing.T) {
	crd.Load(t, file).TestDefaults(t, "web", `{html: x}`, map[string]any{"html": "x", "image": "nginx:1.27-alpine", "replicas": int64(1)})
}

func TestWebsiteAdmission(t *testing.T) {
	const label = "metadata.name must be a DNS-1035 label"
	tests := crd.Cases{
		{"the least", "web", `{html: x}`, "", ""},
		{"the most", strings.Repeat("a", 63), `{html: ` + strings.Repeat("x", 512<<10) + `, replicas: 10, image: "r.example.com:5000/a/b:c"}`, "", ""},
		{"no spec", "web", `null`, "spec", "Required value"},
		{"no page", "web", `{}`, "spec.html", "Required value"},
		{"an empty page", "web", `{html: ""}`, "spec.html", "at least 1"},
		{"a page too long", "web", `{html: ` + strings.Repeat("x", 512<<10+1) + `}`, "spec.html", "524288"},
		{"a page with too many bytes", "web", `{html: ` + strings.Repeat("ä", 256<<10+1) + `}`, "spec.html", "at most 512 KiB"},
		{"no replicas", "web", `{html: x, replicas: 0}`, "spec.replicas", "greater than or equal to 1"},
		{"too many replicas", "web", `{html: x, replicas: 11}`, "spec.replicas", "less than or equal to 10"},
		{"an empty image", "web", `{html: x, image: ""}`, "spec.image", "at least 1"},
		{"an image with a space", "web", `{html: x, image: "nginx latest"}`, "spec.image", ": must be an image reference"},
		{"a name too long", strings.Repeat("a", 64), `{html: x}`, "metadata", label},
		{"a name with a dot", "web.example", `{html: x}`, "metadata", label},
		{"a name beginning with a digit", "1web", `{html: x}`, "metadata", label},
	}
	crd.Load(t, file).TestAdmission(t, tests)
}

func TestWebsiteColumns(t *testing.T) {
	crd.Load(t, file).TestColumns(t, "web", `{html: x, replicas: 3}`, map[string]any{"readyReplicas": int64(2), "url": "http://web.default.svc.cluster.local"},
		map[string]any{"Name": "web", "Replicas": int64(3), "Ready": int64(2), "URL": "http://web.default.svc.cluster.local"})
}
