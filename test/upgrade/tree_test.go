// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package upgrade

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// chartDir is the folder of the embedded chart.
const chartDir = "pkg/helm/charts/demo-app"

// kindsOfTest are the kinds that the test uses in versions that have them, in addition to DemoApp
// and DemoAppCluster.
var kindsOfTest = []string{
	"website", "memcachedbackup", "memcached", "appconfig", "webapp", "postgresql", "backup", "appstack", "ecommerceplatform",
}

// claimsOfTest are the claims of the databases in the examples of kindsOfTest. Each is for 10Gi.
var claimsOfTest = []string{
	"data-postgresql-sample-0", "data-postgresql-sample-1", "data-appstack-sample-db-0", "data-shop-sample-db-0",
}

// tree is the source of one version of the operator.
type tree struct {
	commit string
	// dir is the folder of the source. The binary demoapp-controller is in it.
	dir string
	// kinds are the kinds of kindsOfTest that the version has, and args the flags that they need.
	kinds, args []string
}

// built is the result of a checkout.
type built struct {
	tree *tree
	err  error
}

// checkouts returns the trees of milestones, in their order. It builds an operator while the test
// uses that before it.
func checkouts(t *testing.T, milestones []milestone) <-chan built {
	t.Helper()
	trees, done := make(chan built), make(chan struct{})
	ctx, dir := t.Context(), t.TempDir()
	go func() {
		defer close(done)
		for _, m := range milestones {
			tree, err := checkout(ctx, filepath.Join(dir, m.name), m.commit)
			select {
			case trees <- built{tree, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { <-done })
	return trees
}

// checkout extracts a commit into a new folder and builds its operator there.
func checkout(ctx context.Context, dir, commit string) (*tree, error) {
	tree := &tree{commit: commit, dir: dir}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	for _, command := range []*exec.Cmd{
		exec.CommandContext(ctx, "git", "archive", "--format=tar", "--output="+tree.path("source.tar"), commit),
		exec.CommandContext(ctx, "tar", "-xf", tree.path("source.tar"), "-C", dir),
		// The flags are the same as for "make build", so the build cache has the dependencies. Without
		// paths in it, what one run compiles serves the next, whose folder is another.
		exec.CommandContext(ctx, "env", "CGO_ENABLED=0", "go", "-C", dir, "build", "-trimpath", "-ldflags=-s -w", "-o", "demoapp-controller", "./cmd/demoapp-controller"),
	} {
		command.Dir = root
		if output, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, output)
		}
	}
	for _, kind := range kindsOfTest {
		if tree.has("artifacts/kinds/" + kind + "/crd.yaml") {
			tree.kinds = append(tree.kinds, kind)
		}
	}
	if watches := "artifacts/kinds/memcached/watches.yaml"; tree.has(watches) {
		tree.args = append(tree.args, "--watches-file="+watches)
	}
	return tree, nil
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

// chartDiffers reports whether the embedded chart of this version differs from the chart of an
// older one. This includes changes that are not committed.
func chartDiffers(t *testing.T, from *tree) bool {
	t.Helper()
	return git(t, "diff", "--name-only", from.commit, "--", chartDir) != ""
}
