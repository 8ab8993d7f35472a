// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestMakeRelease makes a release of the operator for one platform from a clone of this repository,
// pushes its image and signs both. A user who installs the packaged chart without values runs the
// image that was signed.
func TestMakeRelease(t *testing.T) {
	cosign := os.Getenv("COSIGN")
	if cosign == "" {
		t.Fatal("COSIGN is empty: run make test-release")
	}
	t.Setenv("COSIGN_PASSWORD", "password")
	keys := t.TempDir()
	command(t, keys, nil, cosign, "generate-key-pair")
	source, err := filepath.Abs(root)
	must(t, err)
	dir := clone(t, source)
	// The clone has the cosign of its go.mod already.
	must(t, os.Chtimes(filepath.Join(dir, "hack", "tools", "cosign", "go.mod"), time.Time{}, time.Unix(0, 0)))
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o750))
	must(t, os.Symlink(cosign, filepath.Join(dir, "bin", "cosign")))
	tag, platform := newRegistry(t, true)+"/team/demoapp-controller:v1.2.3", "linux/"+runtime.GOARCH

	command(t, dir, nil, "make", "release", "VERSION=v1.2.3", "PUSH="+tag, "SIGN_KEY="+filepath.Join(keys, "cosign.key"),
		"PLATFORMS="+platform, "RELEASE_PLATFORMS="+platform)

	output := filepath.Join(dir, "bin", "release")
	image := strings.TrimSpace(read(t, output, "image-digest.txt"))
	reference, err := name.ParseReference(tag)
	must(t, err)
	pushed, err := remote.Get(reference, remote.WithContext(t.Context()))
	must(t, err)
	if want := tag + "@" + pushed.Digest.String(); image != want {
		t.Errorf("the image is %s, but %s was pushed", image, want)
	}
	prefix := "demoapp-controller-v1.2.3-"
	binary := filepath.Join(output, prefix+"linux-"+runtime.GOARCH)
	must(t, os.Chmod(binary, 0o700))
	if version := command(t, output, nil, binary, "--version"); !strings.HasPrefix(version, "demoapp-controller v1.2.3 commit=") {
		t.Errorf("the version of the binary is %q", version)
	}
	if sbom := read(t, output, prefix+"image-linux-"+runtime.GOARCH+".spdx.json"); !strings.Contains(sbom, `"golang.org/x/crypto/x509roots/fallback"`) {
		t.Error("the bill of materials of the image lacks the root certificates")
	}
	verify := []string{"--key", filepath.Join(keys, "cosign.pub"), "--insecure-ignore-tlog"}
	command(t, output, nil, cosign, append([]string{"verify", image}, verify...)...)
	for _, file := range []string{"checksums.txt", "image-digest.txt"} {
		command(t, output, nil, cosign, append([]string{"verify-blob", file, "--bundle", file + ".sigstore.json"}, verify...)...)
	}
	helm := strings.TrimSpace(command(t, root, nil, "go", "list", "-m", "-f", "{{.Path}}/cmd/helm@{{.Version}}", "helm.sh/helm/v4"))
	rendered := command(t, output, nil, "go", "run", helm, "template", "demoapp-controller", "demoapp-controller-1.2.3.tgz")
	rendered = strings.ReplaceAll(rendered, `"`, "")
	for _, part := range []string{
		"image: " + strings.Replace(image, ":v1.2.3@", "@", 1) + "\n",
		"kind: Deployment\n", "app.kubernetes.io/version: v1.2.3\n", "helm.sh/chart: demoapp-controller-1.2.3\n",
	} {
		if !strings.Contains(rendered, part) || strings.Count(rendered, "image: ") != 1 {
			t.Errorf("the rendered chart lacks %q, or has another image", part)
		}
	}
}

func TestVulncheck(t *testing.T) {
	// The database has one vulnerability: in strings.ToUpper.
	dir := t.TempDir()
	const entry = `{"id": "GO-2026-0001", "modified": "2026-01-02T03:04:05Z"`
	write(t, `{"modified": "2026-01-02T03:04:05Z"}`, dir, "index/db.json")
	write(t, `[{"path": "stdlib", "vulns": [`+entry+`}]}]`, dir, "index/modules.json")
	write(t, `[`+entry+`}]`, dir, "index/vulns.json")
	write(t, entry+`, "schema_version": "1.3.1",
		"summary": "A vulnerability of this test", "database_specific": {"url": "https://example.com/GO-2026-0001"},
		"affected": [{"package": {"name": "stdlib", "ecosystem": "Go"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
		"ecosystem_specific": {"imports": [{"path": "strings", "symbols": ["ToUpper"]}]}}]}`, dir, "ID/GO-2026-0001.json")
	const calls = "package main\n\nimport \"strings\"\n\nfunc main() { println(strings.ToUpper(\"a\")) }\n"
	tests := []struct {
		name, source, database string
		exit                   int
		message                string
	}{
		{"no vulnerability", "package main\n\nfunc main() {}\n", "file://" + dir, 0, "No vulnerabilities found"},
		{"a vulnerability", calls, "file://" + dir, 3, "GO-2026-0001"},
		{"no database", calls, "http://127.0.0.1:1", 1, "set GOVULNDB=file:///path/to/vulndb"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			module := newRepository(t)
			write(t, test.source, module, "main.go")
			cmd := exec.CommandContext(t.Context(), root+"/hack/vulncheck.sh", os.Getenv("VULNCHECK"), module)
			cmd.Env = append(os.Environ(), "GOVULNDB="+test.database)

			out, err := cmd.CombinedOutput()

			if exit := cmd.ProcessState.ExitCode(); exit != test.exit || !strings.Contains(string(out), test.message) {
				t.Errorf("exit code %d (%v), want %d, and %q:\n%s", exit, err, test.exit, test.message, out)
			}
		})
	}
}
