// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/crd"
)

const file = "artifacts/kinds/webapp/crd.yaml"

func TestWebAppDefaults(t *testing.T) {
	crd.Load(t, file).TestDefaults(t, "web", `{replicas: 2, image: nginx}`, map[string]any{"image": "nginx", "replicas": int64(2), "port": int64(8080)})
}

func TestWebAppAdmission(t *testing.T) {
	const label = "metadata.name must be a DNS-1035 label"
	digest := "sha256:" + strings.Repeat("a5", 32)
	tests := crd.Cases{
		{"the least", "web", `{replicas: 1, image: nginx}`, "", ""},
		{"the most", strings.Repeat("a", 63), `{replicas: 10, image: "r.example.com:5000/a/b:c@` + digest + `", port: 65535,
			resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 1, memory: 128Mi}},
			securityContext: {runAsUser: 1000, runAsGroup: 1000, runAsNonRoot: true, readOnlyRootFilesystem: true,
				allowPrivilegeEscalation: false, privileged: false, capabilities: {add: [NET_BIND_SERVICE], drop: [ALL]}}}`, "", ""},
		{"no spec", "web", `null`, "spec", "Required value"},
		{"no replicas", "web", `{image: nginx}`, "spec.replicas", "Required value"},
		{"no image", "web", `{replicas: 1}`, "spec.image", "Required value"},
		{"too few replicas", "web", `{replicas: 0, image: nginx}`, "spec.replicas", "greater than or equal to 1"},
		{"too many replicas", "web", `{replicas: 11, image: nginx}`, "spec.replicas", "less than or equal to 10"},
		{"an empty image", "web", `{replicas: 1, image: ""}`, "spec.image", "at least 1"},
		{"an image that is too long", "web", `{replicas: 1, image: ` + strings.Repeat("a", 513) + `}`, "spec.image", "512"},
		{"an image that is no reference", "web", `{replicas: 1, image: "https://nginx"}`, "spec.image", ": must be an image reference"},
		{"an image at an IPv6 address", "web", `{replicas: 1, image: "[2001:db8::1]:5000/nginx"}`, "", ""},
		{"brackets without an IPv6 address", "web", `{replicas: 1, image: "[abc]/nginx"}`, "spec.image", ": must be an image reference"},
		{"a digest in upper case", "web", `{replicas: 1, image: "nginx@` + strings.Replace(digest, "a5", "A5", 1) + `"}`, "spec.image", ": must be an image reference"},
		{"a digest that is too short", "web", `{replicas: 1, image: "nginx@` + digest[:len(digest)-1] + `"}`, "spec.image", ": must be an image reference"},
		{"a digest of an unknown algorithm", "web", `{replicas: 1, image: "nginx@md5:` + strings.Repeat("a", 32) + `"}`, "spec.image", ": must be an image reference"},
		{"port 0", "web", `{replicas: 1, image: nginx, port: 0}`, "spec.port", "greater than or equal to 1"},
		{"a port that is too high", "web", `{replicas: 1, image: nginx, port: 65536}`, "spec.port", "less than or equal to 65535"},
		{"a limit in words", "web", `{replicas: 1, image: nginx, resources: {limits: {memory: lots}}}`, "spec.resources.limits", "quantities must be numbers with an optional unit, such as 500m, 256Mi or 2Gi"},
		{"a request in an unknown unit", "web", `{replicas: 1, image: nginx, resources: {requests: {memory: 64MB}}}`, "spec.resources.requests", "quantities must be numbers"},
		{"a negative user", "web", `{replicas: 1, image: nginx, securityContext: {runAsUser: -1}}`, "spec.securityContext.runAsUser", "greater than or equal to 0"},
		{"a name that is too long", strings.Repeat("a", 64), `{replicas: 1, image: nginx}`, "metadata", label},
		{"a name with a dot", "web.example", `{replicas: 1, image: nginx}`, "metadata", label},
		{"a name that begins with a digit", "1web", `{replicas: 1, image: nginx}`, "metadata", label},
	}
	crd.Load(t, file).TestAdmission(t, tests)
}

func TestWebAppColumns(t *testing.T) {
	crd.Load(t, file).TestColumns(t, "web", `{replicas: 3, image: "nginx:1.27"}`, map[string]any{"readyReplicas": int64(2), "phase": "Deploying"},
		map[string]any{"Name": "web", "Replicas": int64(3), "Ready": int64(2), "Phase": "Deploying", "Image": "nginx:1.27"})
}
