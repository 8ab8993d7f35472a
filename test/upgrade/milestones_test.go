// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

//go:embed milestones.txt
var milestonesFile string

// root is the root of the repository.
const root = "../.."

// milestone is an earlier version of the operator.
type milestone struct {
	// commit is the last commit of the version.
	commit string
	// name is the version number, or a word for a version without a number.
	name string
	// brought names the addition of the version.
	brought string
}

// readMilestones returns the milestones, the oldest first.
func readMilestones(t *testing.T) []milestone {
	t.Helper()
	var all []milestone
	for line := range strings.Lines(milestonesFile) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(line, " ", 3)
		if len(fields) < 3 {
			t.Fatalf("milestones.txt: %q: want a commit, a name and what it brought", line)
		}
		all = append(all, milestone{commit: fields[0], name: fields[1], brought: fields[2]})
	}
	return all
}

// git returns the output of a git command in the repository.
func git(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", args...)
	command.Dir = root
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(output))
}

// requireHistory fails in a shallow clone.
func requireHistory(t *testing.T) {
	t.Helper()
	if git(t, "rev-parse", "--is-shallow-repository") == "true" {
		t.Fatal("the history is incomplete: run git fetch --unshallow")
	}
}

// TestMilestonesAreComplete asserts that each released version is a milestone, and that the
// milestones are earlier versions of this one, in their order.
func TestMilestonesAreComplete(t *testing.T) {
	requireHistory(t)
	all := readMilestones(t)
	if len(all) == 0 {
		t.Fatal("milestones.txt is empty")
	}
	names := map[string]bool{}
	for i, m := range all {
		names[m.name] = true
		next := "HEAD"
		if i+1 < len(all) {
			next = all[i+1].commit
		}
		if base := git(t, "merge-base", m.commit, next); base != git(t, "rev-parse", m.commit) {
			t.Errorf("%s (%s) is not in the history of %s", m.name, m.commit, next)
		}
	}
	for _, version := range released(t) {
		if !names[version] {
			t.Errorf("milestones.txt has no version %s: add its commit, name and what it brought", version)
		}
	}
}

// versionHeading matches the heading of a released version in CHANGELOG.md.
var versionHeading = regexp.MustCompile(`(?m)^## \[?v?(\d+\.\d+\.\d+[^\]\s]*)`)

// released returns the released versions: the versions in CHANGELOG.md and in the tags, without the
// newest one if it is the version of HEAD.
func released(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	versions := changelogVersions(string(content))
	head := git(t, "rev-parse", "HEAD")
	for tag := range strings.Lines(git(t, "tag", "--list", "v*")) {
		tag = strings.TrimSpace(tag)
		if tag != "" && git(t, "rev-parse", tag+"^{commit}") != head {
			versions = append(versions, strings.TrimPrefix(tag, "v"))
		}
	}
	return versions
}

// changelogVersions returns the released versions of a changelog. While the changelog has nothing
// below Unreleased, its newest version is this one and no earlier one.
func changelogVersions(changelog string) []string {
	var versions []string
	for _, match := range versionHeading.FindAllStringSubmatch(changelog, -1) {
		versions = append(versions, match[1])
	}
	first := versionHeading.FindStringIndex(changelog)
	if len(first) > 0 && !strings.Contains(changelog[:first[0]], "\n- ") {
		versions = versions[1:]
	}
	return versions
}

func TestChangelogVersions(t *testing.T) {
	tests := []struct {
		name, changelog string
		want            string
	}{
		{"nothing is released", "# Changelog\n\n## [Unreleased]\n\n- A change.\n", ""},
		{"this version is released", "## [Unreleased]\n\n## [1.1.0] - 2027-01-02\n\n- B\n\n## [1.0.0]\n\n- A\n", "1.0.0"},
		{"after a release", "## [Unreleased]\n\n- C\n\n## [1.1.0]\n\n- B\n\n## [1.0.0]\n\n- A\n", "1.1.0 1.0.0"},
		{"preview", "# Changelog\n\n## [Unreleased]\n\n- C\n\n## [1.0.0-rc.1]\n\n- A\n", "1.0.0-rc.1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.Join(changelogVersions(test.changelog), " "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
