// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/cluster"
)

// helmBinary returns the path of the helm command, which is built once.
var helmBinary = sync.OnceValues(func() (string, error) { return cluster.BuildHelm(context.Background(), workDir) })

// command runs the helm command in a player's namespace, and returns its output.
func command(t *testing.T, p player, args ...string) string {
	t.Helper()
	binary, err := helmBinary()
	if err != nil {
		t.Fatal(err)
	}
	namespace, _ := p.home()
	run := exec.CommandContext(t.Context(), binary, append(args, "--namespace="+namespace, "--kubeconfig="+shared.Kubeconfig())...)
	home := t.TempDir()
	run.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var output, messages bytes.Buffer
	run.Stdout, run.Stderr = &output, &messages
	if err := run.Run(); err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, messages.Bytes())
	}
	return output.String()
}

// volatile matches output that differs each time: times in all forms, ages and addresses; and the
// labels that only the engine's records have.
var volatile = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d{4} \w+|Z|[+-]\d\d:\d\d)?` +
	`|[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}|\b(\d+[hms])+\b|\b10\.\d+\.\d+\.\d+\b|modifiedAt=\d+` +
	`|` + regexp.QuoteMeta(engineLabels) + `[a-z-]+=[^,]*,`)

// spaces matches the padding of columns.
var spaces = regexp.MustCompile(`[ \t]+`)

// prints returns the output of a command by line, without the texts that differ between two
// players. The lines of some commands have no fixed order.
func prints(t *testing.T, p player, args ...string) []string {
	t.Helper()
	namespace, _ := p.home()
	text := spaces.ReplaceAllString(volatile.ReplaceAllString(anonymous(command(t, p, args...), namespace), ""), " ")
	lines := strings.Split(text, "\n")
	if args[0] == "status" {
		slices.Sort(lines)
	}
	return lines
}

// TestHelmCommandReads compares the output of the helm command for both players' releases.
func TestHelmCommandReads(t *testing.T) {
	t.Parallel()
	tests := map[string][][]string{
		"plain": {
			{"list"},
			{"list", "--output=json"},
			{"list", "--filter=w.b", "--deployed", "--short"},
			{"history", releaseName},
			{"history", releaseName, "--output=json"},
			{"status", releaseName},
			{"status", releaseName, "--revision=1"},
			{"get", "all", releaseName},
			{"get", "manifest", releaseName},
			{"get", "metadata", releaseName},
			{"get", "notes", releaseName, "--revision=1"},
		},
		"hooks":    {{"status", releaseName}, {"get", "hooks", releaseName}},
		"umbrella": {{"get", "all", releaseName}, {"get", "values", releaseName, "--all"}},
	}
	for chart, commands := range tests {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			players := []player{newStock(t, newNamespace(t), &journal{}), newEngine(t, newNamespace(t))}
			for _, p := range players {
				for _, message := range []string{"one", "two"} {
					if err := p.deploy(t.Context(), readChart(t, chart), values{"message": message}); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, args := range commands {
				want, got := prints(t, players[0], args...), prints(t, players[1], args...)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("helm %s (-of Helm's release +of the engine's):\n%s", strings.Join(args, " "), diff)
				}
			}
		})
	}
}

// TestHelmCommandChanges changes releases of both players with the helm command. The releases are
// then equal, and the engine restores the desired state.
func TestHelmCommandChanges(t *testing.T) {
	t.Parallel()
	chart, err := filepath.Abs(filepath.Join("testdata", "charts", "plain"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		// revision is the newest revision after the command; 0 without one.
		revision int
		status   string
	}{
		{name: "rollback", args: []string{"rollback", releaseName, "1"}, revision: 3, status: "deployed"},
		{name: "upgrade", args: []string{"upgrade", releaseName, chart, "--set=message=three,extra=false"}, revision: 3, status: "deployed"},
		{name: "upgrade that waits", args: []string{"upgrade", releaseName, chart, "--reuse-values", "--wait"}, revision: 3, status: "deployed"},
		{name: "uninstall", args: []string{"uninstall", releaseName}},
		{name: "uninstall that keeps the history", args: []string{"uninstall", releaseName, "--keep-history"}, revision: 2, status: "uninstalled"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, newNamespace(t))
			players := []player{newStock(t, newNamespace(t), &journal{}), e}
			worlds := make([]world, 0, len(players))
			desired := values{"message": "two", "replicas": 1}
			for _, p := range players {
				for _, deployed := range []values{{"message": "one"}, desired} {
					if err := p.deploy(t.Context(), readChart(t, "plain"), deployed); err != nil {
						t.Fatal(err)
					}
				}
				_, journal := p.home()
				journal.take()
				command(t, p, test.args...)
				worlds = append(worlds, look(t.Context(), t, p, nil))
			}
			if diff := cmp.Diff(worlds[0], worlds[1], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("after the command, the engine's release differs (-helm +engine):\n%s", diff)
			}
			e.await("the change", func(snapshot helm.Snapshot) bool {
				if test.revision == 0 {
					return snapshot.Record == nil
				}
				return snapshot.Record != nil && snapshot.Record.Revision == test.revision && snapshot.Record.Status == test.status
			})
			e.comesBack(t, e.desired(readChart(t, "plain"), desired))
		})
	}
}

// comesBack asserts that the engine restores the desired state, as after a new install.
func (e *engine) comesBack(t *testing.T, desired helm.Release) {
	t.Helper()
	if err := e.converge(t.Context(), desired); err != nil {
		t.Fatal(err)
	}
	fresh := newEngine(t, newNamespace(t))
	again := desired
	again.Namespace = fresh.namespace
	if err := fresh.converge(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	want, got := look(t.Context(), t, fresh, nil), look(t.Context(), t, e, nil)
	for _, w := range []*world{&want, &got} {
		currentState.forget(w)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("not as a fresh install (-fresh +got):\n%s", diff)
	}
	if newest := newestRelease(t.Context(), t, e.namespace); newest == nil || newest.Info.Status != "deployed" {
		t.Errorf("the newest release is %+v", newest)
	}
}
