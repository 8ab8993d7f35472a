// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/hack/image/program"
)

// newHelm builds the helm command in the version of the operator's go.mod and returns its path.
func newHelm(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	version := program.Command(t, root, nil, "go", "list", "-m", "-f", "{{.Version}}", "helm.sh/helm/v4")
	program.Command(t, root, []string{"GOBIN=" + dir}, "go", "install", "helm.sh/helm/v4/cmd/helm@"+strings.TrimSpace(version))
	return filepath.Join(dir, "helm")
}

// A user installs the packaged chart without values, and runs the image that was signed.
func TestPackagedChartRenders(t *testing.T) {
	r := newRelease(t, program.NewRepository(t))
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	digest := strings.TrimSpace(read(t, filepath.Join(r.image, "digest")))

	rendered := program.Command(t, r.output, nil, newHelm(t),
		"template", "demoapp-controller", "demoapp-controller-1.2.3.tgz", "--namespace=demoapp-system")

	image := "registry.example.com/demoapp-controller@" + digest
	if strings.Count(rendered, "image: ") != 1 || !strings.Contains(strings.ReplaceAll(rendered, `"`, ""), "image: "+image+"\n") {
		t.Errorf("the chart does not render the image %s, and no other", image)
	}
	for _, part := range []string{"kind: Deployment\n", "app.kubernetes.io/version: v1.2.3\n", "helm.sh/chart: demoapp-controller-1.2.3\n"} {
		if !strings.Contains(strings.ReplaceAll(rendered, `"`, ""), part) {
			t.Errorf("the rendered chart lacks %q", part)
		}
	}
}
