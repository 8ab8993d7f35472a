// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package upgrade

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// chartDir is the folder of the embedded chart.
const chartDir = "pkg/helm/charts/demo-app"

// kindsOfTest are the kinds beside DemoApp and DemoAppCluster that the test uses, where a version has them: release
// kinds and plain Go kinds that need no volumes.
var kindsOfTest = []string{"website", "memcachedbackup", "memcached", "appconfig", "webapp"}

// tree is the source of one version of the operator.
type tree struct {
	commit string
	// dir is the folder of the source. The binary demoapp-controller is in it.
	dir string
	// kinds are those of kindsOfTest that the version has, and args the flags that they need.
	kinds, args []string
}

// checkout extracts a commit into a temporary folder and builds its operator there.
func checkout(t *testing.T, commit string) *tree {
	t.Helper()
	tree := &tree{commit: commit, dir: t.TempDir()}
	archive := filepath.Join(tree.dir, "source.tar")
	git(t, "archive", "--format=tar", "--output="+archive, commit)
	run(t, tree.dir, "tar", "-xf", archive)
	// The build cache has the dependencies, because this version is built with the same flags.
	run(t, tree.dir, "go", "build", "-ldflags=-s -w", "-o", "demoapp-controller", "./cmd/demoapp-controller")
	for _, kind := range kindsOfTest {
		if _, err := os.Stat(tree.path("artifacts/kinds", kind, "crd.yaml")); err == nil {
			tree.kinds = append(tree.kinds, kind)
		}
	}
	if watches := "artifacts/kinds/memcached/watches.yaml"; tree.has(watches) {
		tree.args = append(tree.args, "--watches-file="+watches)
	}
	return tree
}

// thisTree is the source of this version, with the kinds of an older one.
func thisTree(t *testing.T, old *tree) *tree {
	t.Helper()
	return &tree{commit: "HEAD", dir: shared.Root(), kinds: old.kinds, args: old.args}
}

func (t *tree) path(parts ...string) string {
	return filepath.Join(append([]string{t.dir}, parts...)...)
}

func (t *tree) has(path string) bool {
	_, err := os.Stat(t.path(path))
	return err == nil
}

// chartDiffers reports whether the embedded chart of this version differs from that of an older one. This includes
// changes that are not committed.
func chartDiffers(t *testing.T, from *tree) bool {
	t.Helper()
	return git(t, "diff", "--name-only", from.commit, "--", chartDir) != ""
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, output))
	}
}
