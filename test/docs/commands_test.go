// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// commandTimeout bounds one command. The first one builds the control plane and the operator.
const commandTimeout = 20 * time.Minute

// pages are run in this order. All of them begin without a control plane.
var pages = []struct {
	path string
	// before are commands that a page takes for granted.
	before []string
	// after are commands that check what a page says about the result of its commands.
	after []command
}{
	{path: "README.md"},
	{path: "docs/production.md"},
	{path: "docs/tutorial.md"},
	{path: "docs/tutorial-chart.md"},
	{path: "docs/kubectl-wait.md", before: []string{
		"make up build",
		"export KUBECONFIG=$(go -C hack/localcluster run . kubeconfig --name demoapp)",
		"kubectl apply -f artifacts/crds/",
		"kubectl wait --for=condition=Established -f artifacts/crds/ --timeout=1m",
		"bin/demoapp-controller --kubeconfig=$KUBECONFIG --leader-elect=false --metrics-bind-address=0 --health-probe-bind-address=0 &",
	}},
	{
		path: "docs/argocd.md",
		before: []string{
			"make up",
			"export KUBECONFIG=$(go -C hack/localcluster run . kubeconfig --name demoapp)",
			"kubectl create namespace argocd",
			"kubectl create configmap argocd-cm --namespace=argocd --from-literal=url=https://argocd.example.com",
		},
		// Server-side apply keeps the other settings.
		after: []command{{
			text: `kubectl get configmap/argocd-cm --namespace=argocd -o go-template='` +
				`{{.data.url}} {{if index .data "resource.customizations.health.demo.example.com_DemoApp"}}has a health check{{end}}{{"\n"}}'`,
			expected: []string{"https://argocd.example.com has a health check"},
		}},
	},
}

// TestCommands runs the commands of the pages, as a reader who types them, in a copy of the repository. A page leaves no
// control plane behind.
func TestCommands(t *testing.T) {
	copied := copyRepository(t)
	env := environment(t, copied)
	for _, page := range pages {
		t.Run(page.path, func(t *testing.T) {
			parsed := parse(t, page.path)
			bash, err := startShell(copied, t.TempDir(), env...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				bash.close()
				down(t, copied, env)
			})
			for _, text := range page.before {
				runCommand(t, bash, page.path, command{text: text})
			}
			for _, block := range parsed {
				if block.notRun != "" {
					continue
				}
				for _, command := range block.commands {
					runCommand(t, bash, page.path, command)
				}
			}
			for _, command := range page.after {
				runCommand(t, bash, page.path, command)
			}
		})
	}
}

// TestNotRun lists the blocks that are not run, so that nobody exempts a block by accident.
func TestNotRun(t *testing.T) {
	expected := []string{
		"README.md: $ make demo",
		"README.md: $ make image",
		"README.md: $ helm install",
		"docs/production.md: $ helm install",
		"docs/production.md: $ kubectl --namespace=demoapp-system",
		"docs/production.md: $ prometheus --config.file=bin/production/prometheus.yaml",
	}

	var got []string
	for _, page := range pages {
		for _, block := range parse(t, page.path) {
			if block.notRun != "" {
				words := strings.Fields(block.commands[0].text)
				got = append(got, page.path+": $ "+strings.Join(words[:2], " "))
			}
		}
	}

	if !slices.Equal(got, expected) {
		t.Errorf("not run are\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(expected, "\n"))
	}
}

// runCommand runs a command of a page, and ends the test if the command fails or prints something else.
func runCommand(t *testing.T, bash *shell, page string, command command) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	begin := time.Now()
	output, code, err := bash.run(ctx, command.text)
	where := fmt.Sprintf("%s:%d: $ %s", page, command.line, command.text)
	if command.line == 0 {
		where = fmt.Sprintf("before or after %s: $ %s", page, command.text)
	}
	if err != nil || code != 0 {
		t.Fatalf("%s\nended with exit code %d, error %v:\n%s", where, code, err, output)
	}
	if command.expected != nil && !matches(command.expected, strings.Split(output, "\n")) {
		t.Fatalf("%s\nprinted:\n%s\nThe page shows:\n%s", where, output, strings.Join(command.expected, "\n"))
	}
	t.Logf("%s (%.1f s)", where, time.Since(begin).Seconds())
}

func parse(t *testing.T, page string) []block {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := blocks(string(content))
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	if len(parsed) == 0 {
		t.Fatalf("%s has no commands", page)
	}
	return parsed
}

// copyRepository clones the repository, adds what is not committed, and returns the folder of the clone.
func copyRepository(t *testing.T) string {
	t.Helper()
	from, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "demoapp-controller")
	output(t, from, nil, "git", "clone", "--quiet", "--shared", from, to)
	changed := output(t, from, nil, "git", "ls-files", "-z", "--modified", "--others", "--exclude-standard")
	for name := range strings.SplitSeq(strings.Trim(changed, "\x00"), "\x00") {
		copyFile(t, filepath.Join(from, name), filepath.Join(to, name))
	}
	return to
}

// copyFile copies a file, or removes the copy of a file that does not exist.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if os.IsNotExist(err) {
		_ = os.Remove(to)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		return
	}
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, info.Mode().Perm()); err != nil {
		t.Fatal(err)
	}
}

// environment returns variables for the commands of pages: the kubectl of the control plane, and a folder of its own for
// control planes, which uses the binaries that this machine has already.
func environment(t *testing.T, copied string) []string {
	t.Helper()
	binaries := strings.TrimSpace(output(t, copied, nil, "go", "-C", "hack/localcluster", "run", ".", "build"))
	cache := t.TempDir()
	if err := os.Symlink(filepath.Dir(binaries), filepath.Join(cache, "bin")); err != nil {
		t.Fatal(err)
	}
	return []string{"LOCALCLUSTER_CACHE=" + cache, "PATH=" + binaries + string(os.PathListSeparator) + os.Getenv("PATH"), "KUBECONFIG="}
}

// down stops the control plane of a page that did not come to its end.
func down(t *testing.T, copied string, env []string) {
	t.Helper()
	//nolint:usetesting // The context of the test has ended when its cleanup runs.
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "make", "down")
	cmd.Dir = copied
	cmd.Env = append(os.Environ(), env...)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("make down: %v\n%s", err, output)
	}
}

// output runs a program and returns its standard output.
func output(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var messages strings.Builder
	cmd.Stderr = &messages
	printed, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, messages.String())
	}
	return string(printed)
}
