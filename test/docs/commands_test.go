// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package docs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/hack/pages"
)

const root = "../.."

// pageTimeout bounds one page. The first one builds the operator.
const pageTimeout = 30 * time.Minute

// runPages are run in this order. All of them begin without a control plane.
var runPages = []struct {
	path string
	// before are commands that a page takes for granted.
	before []string
	// after are commands that check the page's statements about the result of its commands.
	after []pages.Command
}{
	{path: "README.md", before: []string{
		"make up",
		"export KUBECONFIG=$(go -C hack/localcluster run . kubeconfig --name demoapp)",
	}},
	{path: "docs/production.md"},
	{path: "docs/tutorial.md"},
	{path: "docs/tutorial-chart.md"},
	// "make demo" plays it, too.
	{path: "docs/tour.md", before: []string{
		"make up",
		"export KUBECONFIG=$(go -C hack/localcluster run . kubeconfig --name demoapp)",
	}},
	{path: "docs/kubectl-wait.md", before: []string{
		"make up build",
		"export KUBECONFIG=$(go -C hack/localcluster run . kubeconfig --name demoapp)",
		"kubectl apply -f artifacts/crds/",
		"kubectl wait --for=condition=Established -f artifacts/crds/ --timeout=1m",
		"bin/demoapp-controller --kubeconfig=$KUBECONFIG --leader-elect=false --metrics-bind-address=0 --health-probe-bind-address=0 &",
	}},
	{path: "docs/cli.md", before: []string{
		"make up build plugin",
		"export KUBECONFIG=$(go -C hack/localcluster run . kubeconfig --name demoapp) PATH=$PWD/bin:$PATH",
		"kubectl apply -f artifacts/crds/ -f artifacts/kinds/website/crd.yaml -f artifacts/kinds/postgresql/crd.yaml " +
			"-f artifacts/kinds/ecommerceplatform/crd.yaml",
		"kubectl wait --for=condition=Established crds --all --timeout=1m",
		"kubectl create namespace demoapp-system",
		"bin/demoapp-controller --kubeconfig=$KUBECONFIG --metrics-bind-address=0 --health-probe-bind-address=0 &",
		"kubectl apply -f artifacts/examples/demoapp.yaml -f artifacts/kinds/website/example.yaml -f artifacts/kinds/ecommerceplatform/example.yaml",
		"kubectl wait demoapp/demoapp-sample website/website-sample --for=condition=Ready --timeout=2m",
		// A pod without a node counts as failed after some seconds.
		"timeout 2m bash -c 'until kubectl demoapp tree ecommerceplatform/shop-sample | grep -q \"could not be scheduled\"; do sleep 1; done'",
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
		after: []pages.Command{{
			Text: `kubectl get configmap/argocd-cm --namespace=argocd -o go-template='` +
				`{{.data.url}} {{if index .data "resource.customizations.health.demo.example.com_DemoApp"}}has a health check{{end}}{{"\n"}}'`,
			Expected: []string{"https://argocd.example.com has a health check"},
		}},
	},
}

// TestCommands runs the commands of the pages, as a reader who types them, in a copy of the
// repository. A page leaves no control plane behind.
func TestCommands(t *testing.T) {
	copied := copyRepository(t)
	env := environment(t, copied)
	for _, page := range runPages {
		t.Run(page.path, func(t *testing.T) {
			sections := parse(t, page.path)
			bash, err := pages.StartShell(copied, t.TempDir(), env...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				bash.Close()
				down(t, copied, env)
			})
			ctx, cancel := context.WithTimeout(t.Context(), pageTimeout)
			defer cancel()
			player := &pages.Player{Shell: bash, Screen: pages.NewScreen(t.Output())}
			for _, text := range page.before {
				if _, err := player.PlayCommands(ctx, []pages.Command{{Text: text}}); err != nil {
					t.Fatalf("before %s: %v", page.path, err)
				}
			}
			for _, section := range sections {
				if _, err := player.Play(ctx, section); err != nil {
					t.Fatalf("%s: %s: %v", page.path, section.Title, err)
				}
			}
			if _, err := player.PlayCommands(ctx, page.after); err != nil {
				t.Fatalf("after %s: %v", page.path, err)
			}
		})
	}
}

// TestNotRun lists the blocks that are not run, so that nobody exempts a block by accident.
func TestNotRun(t *testing.T) {
	expected := []string{
		"README.md: $ make demo",
		"README.md: $ make image",
		"docs/production.md: $ make image",
		"docs/production.md: $ kubectl apply",
		"docs/production.md: $ kubectl --namespace=demoapp-system",
		"docs/production.md: $ prometheus --config.file=bin/production/prometheus.yaml",
		"docs/tour.md: $ make up",
		"docs/tour.md: $ make down",
		"docs/cli.md: $ make plugin",
		"docs/cli.md: $ sha256sum --check",
		"docs/cli.md: $ ln -s",
		"docs/cli.md: $ kubectl demoapp",
		"docs/cli.md: $ kubectl logs",
		"docs/cli.md: $ kubectl demoapp",
		"docs/cli.md: $ kubectl demoapp",
		"docs/cli.md: $ kubectl demoapp",
		"docs/cli.md: $ kubectl demoapp",
	}

	var got []string
	for _, page := range runPages {
		for _, section := range parse(t, page.path) {
			for _, block := range section.Blocks {
				if block.NotRun != "" {
					words := strings.Fields(block.Commands[0].Text)
					got = append(got, page.path+": $ "+strings.Join(words[:2], " "))
				}
			}
		}
	}

	if !slices.Equal(got, expected) {
		t.Errorf("not run are\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(expected, "\n"))
	}
}

func parse(t *testing.T, page string) []pages.Section {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	sections, err := pages.Parse(string(content))
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	if !slices.ContainsFunc(sections, func(s pages.Section) bool { return len(s.Blocks) > 0 }) {
		t.Fatalf("%s has no commands", page)
	}
	return sections
}

// copyRepository clones the repository, adds uncommitted changes, and returns the folder of the
// clone.
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

// environment returns variables for the commands of pages: the kubectl of the control plane, and a
// folder of its own for control planes, which uses the binaries that this machine has already.
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
	ctx, cancel := context.WithTimeout(context.Background(), pageTimeout)
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
