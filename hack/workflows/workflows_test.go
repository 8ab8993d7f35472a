// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package workflows

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
)

// root is the root of the repository.
const root = "../.."

// workflow is a parsed file.
type workflow struct {
	file    string
	content []byte
	*actionlint.Workflow
}

// parseAll returns all workflows.
func parseAll(t *testing.T) []workflow {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.y*ml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 3 {
		t.Fatalf("%d workflows, want at least CI, release and security", len(files))
	}
	all := make([]workflow, 0, len(files))
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, errs := actionlint.Parse(content)
		for _, err := range errs {
			t.Errorf("%s: %v", file, err)
		}
		all = append(all, workflow{filepath.Base(file), content, parsed})
	}
	return all
}

func TestActionlint(t *testing.T) {
	for _, w := range parseAll(t) {
		t.Run(w.file, func(t *testing.T) {
			linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
			if err != nil {
				t.Fatal(err)
			}

			found, err := linter.Lint(w.file, w.content, nil)
			if err != nil {
				t.Fatal(err)
			}

			for _, problem := range found {
				t.Error(problem)
			}
		})
	}
}

// target matches a command that calls make, directly or by .ci/run, and its targets. Flags and
// variables follow them.
var target = regexp.MustCompile(`(?m)^\s*(?:make|\.ci/run)((?: +[a-z][a-z-]*)+)`)

// targets returns the targets of make that a workflow calls. Each value of a matrix is one target.
func targets(w workflow) []string {
	var all []string
	for _, job := range w.Jobs {
		var matrix []string
		if job.Strategy != nil && job.Strategy.Matrix != nil && job.Strategy.Matrix.Rows["target"] != nil {
			for _, value := range job.Strategy.Matrix.Rows["target"].Values {
				matrix = append(matrix, strings.Trim(value.String(), `"`))
			}
			if included := job.Strategy.Matrix.Include; included != nil {
				for _, combination := range included.Combinations {
					if value := combination.Assigns["target"]; value != nil {
						matrix = append(matrix, strings.Trim(value.Value.String(), `"`))
					}
				}
			}
		}
		for _, step := range job.Steps {
			run, ok := step.Exec.(*actionlint.ExecRun)
			if !ok {
				continue
			}
			commands := []string{run.Run.Value}
			if strings.Contains(run.Run.Value, "${{ matrix.target }}") {
				commands = nil
				for _, value := range matrix {
					commands = append(commands, strings.ReplaceAll(run.Run.Value, "${{ matrix.target }}", value))
				}
			}
			for _, command := range commands {
				for _, match := range target.FindAllStringSubmatch(command, -1) {
					all = append(all, strings.Fields(match[1])...)
				}
			}
		}
	}
	return all
}

func TestTargetsExist(t *testing.T) {
	want := map[string][]string{
		"ci.yaml": {
			"docker-build", "lint", "release", "test-cluster", "test-databases", "test-node-short", "test-release", "test-unit", "verify",
		},
		"nightly.yaml":  {"test-chaos", "test-cluster-all", "test-conformance", "test-databases", "test-node", "test-release", "test-rename", "test-version"},
		"release.yaml":  {"release", "release-push", "sign"},
		"security.yaml": {"gosec", "vulncheck"},
	}
	for _, w := range parseAll(t) {
		t.Run(w.file, func(t *testing.T) {
			got := targets(w)
			slices.Sort(got)
			if !slices.Equal(got, want[w.file]) {
				t.Errorf("targets = %q, want %q", got, want[w.file])
			}
			for _, name := range got {
				// A dry run fails for an unknown target.
				cmd := exec.CommandContext(t.Context(), "make", "--dry-run", "--silent", name, "VERSION=v1.2.3")
				cmd.Dir = root
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("make %s: %v\n%s", name, err, lastLine(out))
				}
			}
		})
	}
}

// The page about supported versions names each version of Kubernetes that localcluster builds. The oldest
// and the newest one are tested each night.
func TestVersionsOfKubernetesAreTested(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "hack", "localcluster", "kubernetes", "*.mod"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d versions, %v", len(files), err)
	}
	files = append(files, filepath.Join(root, "hack", "localcluster", "go.mod"))
	page, err := os.ReadFile(filepath.Join(root, "docs", "supported-versions.md"))
	if err != nil {
		t.Fatal(err)
	}
	var built []string
	for _, file := range files {
		mod, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		match := kubernetesVersion.FindSubmatch(mod)
		if match == nil {
			t.Fatalf("%s requires no version of Kubernetes", file)
		}
		built = append(built, string(match[2]))
		if row := "\n| " + string(match[1]) + " |"; !bytes.Contains(page, []byte(row)) {
			t.Errorf("docs/supported-versions.md has no row %q", row)
		}
	}
	slices.Sort(built)
	var tested []string
	for _, w := range parseAll(t) {
		if job := w.Jobs["version"]; job != nil {
			for _, value := range job.Strategy.Matrix.Rows["kubernetes"].Values {
				tested = append(tested, strings.Trim(value.String(), `"`))
			}
		}
	}
	for _, version := range tested {
		if !slices.Contains(built, version) {
			t.Errorf("nightly.yaml tests %s, which localcluster does not build", version)
		}
	}
	if len(tested) == 0 || tested[0] != built[0] || tested[len(tested)-1] != built[len(built)-1] {
		t.Errorf("nightly.yaml tests %q, want the oldest and the newest of %q", tested, built)
	}
}

// kubernetesVersion matches the version of Kubernetes that a go.mod requires, and its minor version.
var kubernetesVersion = regexp.MustCompile(`k8s\.io/kubernetes v((1\.\d+)\.\d+)`)

func lastLine(out []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	return lines[len(lines)-1]
}

// pinned matches an action with a commit, and the comment with its version.
var pinned = regexp.MustCompile(`uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

func TestActionsArePinned(t *testing.T) {
	for _, w := range parseAll(t) {
		for line := range strings.Lines(string(w.content)) {
			if line = strings.TrimSpace(line); strings.Contains(line, "uses:") &&
				!strings.HasPrefix(line, "uses: ./") && !pinned.MatchString(line) {
				t.Errorf("%s: %q names no commit and version", w.file, line)
			}
		}
	}
}

// A release is built only after all tests, and published only by the job with the rights.
func TestReleaseNeedsTests(t *testing.T) {
	all := parseAll(t)
	i := slices.IndexFunc(all, func(w workflow) bool { return w.file == "release.yaml" })
	if i < 0 {
		t.Fatal("release.yaml is absent")
	}
	jobs := all[i].Jobs

	if call := jobs["test"].WorkflowCall; call == nil || call.Uses.Value != "./.github/workflows/ci.yaml" {
		t.Error("the job test does not run ci.yaml")
	}
	for job, needed := range map[string]string{"build": "test", "publish": "build"} {
		if needs := jobs[job].Needs; len(needs) != 1 || needs[0].Value != needed {
			t.Errorf("the job %s does not need %s", job, needed)
		}
	}
}

// Workflows may read the repository. More is granted to single jobs.
func TestPermissions(t *testing.T) {
	want := map[string]map[string]string{
		"release.yaml test":    {"contents": "read"},
		"release.yaml build":   {"contents": "read"},
		"release.yaml publish": {"contents": "write", "packages": "write", "id-token": "write", "attestations": "write"},
	}
	for _, w := range parseAll(t) {
		if w.Permissions == nil || w.Permissions.All != nil {
			t.Errorf("%s: does not list the permissions of the workflow", w.file)
			continue
		}
		for scope, permission := range w.Permissions.Scopes {
			if scope != "contents" || permission.Value.Value != "read" {
				t.Errorf("%s: grants %s: %s to all jobs", w.file, scope, permission.Value.Value)
			}
		}
		for name, job := range w.Jobs {
			checkJobPermissions(t, w.file+" "+name, job, want[w.file+" "+name])
		}
	}
}

func checkJobPermissions(t *testing.T, name string, job *actionlint.Job, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	if job.Permissions != nil {
		for scope, permission := range job.Permissions.Scopes {
			got[scope] = permission.Value.Value
		}
	}
	for scope, value := range got {
		if want[scope] != value {
			t.Errorf("%s: has the permission %s: %s", name, scope, value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: permissions = %v, want %v", name, got, want)
	}
	for _, step := range job.Steps {
		action, ok := step.Exec.(*actionlint.ExecAction)
		if !ok || !strings.HasPrefix(action.Uses.Value, "actions/checkout@") {
			continue
		}
		if input := action.Inputs["persist-credentials"]; input == nil || input.Value.Value != "false" {
			t.Errorf("%s: the checkout keeps its credentials for later steps", name)
		}
	}
}
