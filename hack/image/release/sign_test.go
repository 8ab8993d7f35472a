// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"errors"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/example/demoapp-controller/hack/image/pack"
	"github.com/example/demoapp-controller/hack/image/program"
)

// tool returns the path of a tool that "make test-release" built.
func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s is empty: run make test-release", variable)
	}
	return path
}

// script returns the path of a script in hack.
func script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// newKey returns the files of a new key pair.
func newKey(t *testing.T, cosign string) (private, public string) {
	t.Helper()
	dir := t.TempDir()
	program.Command(t, dir, nil, cosign, "generate-key-pair")
	return filepath.Join(dir, "cosign.key"), filepath.Join(dir, "cosign.pub")
}

func TestSignedReleaseVerifies(t *testing.T) {
	cosign := tool(t, "COSIGN")
	t.Setenv("COSIGN_PASSWORD", "password")
	private, public := newKey(t, cosign)
	_, otherKey := newKey(t, cosign)
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(t.Output(), "", 0))))
	t.Cleanup(server.Close)
	r := newRelease(t, program.NewRepository(t))
	r.repository = strings.TrimPrefix(server.URL, "http://") + "/team/demoapp-controller"
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	bundle, err := pack.Build(r.version, r.binaries...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Push(t.Context(), r.repository+":"+r.version); err != nil {
		t.Fatal(err)
	}
	image := strings.TrimSpace(read(t, filepath.Join(r.output, "image-digest.txt")))

	program.Command(t, ".", []string{"SIGN_KEY=" + private}, script(t, "sign.sh"), cosign, r.output, image)

	verifyFile := func(file, key string) error {
		return exec.CommandContext(t.Context(), cosign, "verify-blob", "--key", key, "--insecure-ignore-tlog",
			"--bundle", filepath.Join(r.output, file+".sigstore.json"), filepath.Join(r.output, file)).Run()
	}
	for _, file := range []string{"checksums.txt", "image-digest.txt"} {
		if err := verifyFile(file, public); err != nil {
			t.Errorf("the signature of %s does not verify: %v", file, err)
		}
	}
	program.Command(t, ".", nil, cosign, "verify", "--key", public, "--insecure-ignore-tlog", image)

	if err := verifyFile("checksums.txt", otherKey); err == nil {
		t.Error("the signature verifies with another key")
	}
	changed := strings.Replace(read(t, filepath.Join(r.output, "checksums.txt")), "install.yaml", "other.yaml", 1)
	if err := os.WriteFile(filepath.Join(r.output, "checksums.txt"), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := verifyFile("checksums.txt", public); err == nil {
		t.Error("the signature verifies for changed checksums")
	}
}

// newDatabase returns the URL of a database with one vulnerability: in strings.ToUpper.
func newDatabase(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"index/db.json":      `{"modified": "2026-01-02T03:04:05Z"}`,
		"index/modules.json": `[{"path": "stdlib", "vulns": [{"id": "GO-2026-0001", "modified": "2026-01-02T03:04:05Z"}]}]`,
		"index/vulns.json":   `[{"id": "GO-2026-0001", "modified": "2026-01-02T03:04:05Z"}]`,
		"ID/GO-2026-0001.json": `{"schema_version": "1.3.1", "id": "GO-2026-0001", "modified": "2026-01-02T03:04:05Z",
			"summary": "A vulnerability of this test", "database_specific": {"url": "https://example.com/GO-2026-0001"},
			"affected": [{"package": {"name": "stdlib", "ecosystem": "Go"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
			"ecosystem_specific": {"imports": [{"path": "strings", "symbols": ["ToUpper"]}]}}]}`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + dir
}

func TestVulncheck(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	database := newDatabase(t)
	const calls = "package main\n\nimport \"strings\"\n\nfunc main() { println(strings.ToUpper(\"a\")) }\n"
	tests := []struct {
		name, source, database string
		exit                   int
		message                string
	}{
		{name: "no vulnerability", source: "package main\n\nfunc main() {}\n", database: database, message: "No vulnerabilities found"},
		{name: "a vulnerability", source: calls, database: database, exit: 3, message: "GO-2026-0001"},
		{name: "no database", source: calls, database: closed.URL, exit: 1, message: "set GOVULNDB=file:///path/to/vulndb"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			module := program.NewRepository(t)
			if err := os.WriteFile(filepath.Join(module, "main.go"), []byte(test.source), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), script(t, "vulncheck.sh"), tool(t, "VULNCHECK"), module)
			cmd.Env = append(os.Environ(), "GOVULNDB="+test.database)

			out, err := cmd.CombinedOutput()

			exit := 0
			if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
				exit = failed.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if exit != test.exit || !strings.Contains(string(out), test.message) {
				t.Errorf("exit code %d, want %d, and %q:\n%s", exit, test.exit, test.message, out)
			}
		})
	}
}
