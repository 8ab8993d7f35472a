// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package fleet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

const (
	// few and many are the sizes that the test compares. Short tests stay far below many.
	few, fewMore, many = 10, 60, 1000
	// limit bounds the fastest of three runs of a command.
	limit = 2 * time.Second
	// user is the name that the commands run under, so that the audit log tells their requests.
	user = "user-of-the-plugin"
)

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{Audit: true}, func(c *cluster.Cluster) { shared = c }))
}

// commands are those that read a cluster. whole says that a command is about all objects: its
// requests grow with the pages of the lists.
var commands = []struct {
	args  string
	whole bool
	code  int
}{
	{args: "get", whole: true},
	{args: "get -A --sort age", whole: true},
	{args: "get -o json", whole: true},
	{args: "get demoapp --not-ready", whole: true},
	{args: "get demoapp/web-00"},
	{args: "status demoapp/web-00"},
	{args: "tree demoapp/web-00"},
	{args: "why demoapp/web-00"},
	{args: "why demoapp/stuck", code: 2},
	{args: "status demoapp/stuck"},
	{args: "history demoapp/web-00"},
	{args: "values demoapp/web-00"},
	{args: "diff demoapp/web-00"},
	{args: "diff demoapp/web-00 --set spec.message=other", code: 1},
	{args: "rollback demoapp/web-00 --to 1 --yes"},
	{args: "report", whole: true},
}

// TestCommandsInFleet runs the commands beside few and many DemoApps. Each stays below the limit,
// and a command about one object sends the same requests beside any number of others.
func TestCommandsInFleet(t *testing.T) {
	program := build(t)
	ns := apps.NewExclusive(t, shared)
	cluster.StartOperator(t.Context(), t, shared)
	stuck := apps.Named("stuck")
	stuck.Spec.Image = "registry.invalid/web:1"
	ns.Create(stuck)
	size := many
	if testing.Short() {
		size = fewMore
	}

	ns.AwaitAll(create(ns, 0, few), 1)
	before := measure(t, program, ns.Name)
	ns.AwaitAll(create(ns, few, size), 1)
	after := measure(t, program, ns.Name)

	for i, command := range commands {
		small, large := before[i], after[i]
		t.Logf("%-48s %2d requests beside %d, %2d beside %d; %v", command.args, small.requests, few, large.requests, size, large.took.Round(time.Millisecond))
		if large.took > limit {
			t.Errorf("%s took %v beside %d DemoApps, want less than %v", command.args, large.took, size, limit)
		}
		if !command.whole && large.requests > small.requests {
			t.Errorf("%s sends %d requests beside %d DemoApps, and %d beside %d", command.args, small.requests, few, large.requests, size)
		}
	}
}

// create creates the DemoApps first to end-1 without pods, and returns their names.
func create(ns *apps.Namespace, first, end int) []string {
	var names []string
	for i := first; i < end; i++ {
		app := apps.WithoutPods(fmt.Sprintf("web-%02d", i))
		ns.Create(app)
		names = append(names, app.Name)
	}
	return names
}

// measurement is the fastest of three runs of a command.
type measurement struct {
	took     time.Duration
	requests int
}

// build builds the plugin and returns its path.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kubectl-demoapp")
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "./cmd/kubectl-demoapp")
	command.Dir = shared.Root()
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return program
}

func measure(t *testing.T, program, namespace string) []measurement {
	t.Helper()
	measured := make([]measurement, 0, len(commands))
	for _, command := range commands {
		best := measurement{took: time.Hour}
		for range 3 {
			args := strings.Fields(command.args)
			if args[0] == "report" {
				args = append(args, "--output", filepath.Join(t.TempDir(), "report.tar.gz"))
			}
			args = append(args, "--kubeconfig", shared.Kubeconfig(), "--namespace", namespace, "--as", user, "--as-group", "system:masters", "--cache-dir", t.TempDir())
			run := exec.CommandContext(t.Context(), program, args...)
			begin := time.Now()
			output, _ := run.CombinedOutput()
			took := time.Since(begin)
			if code := run.ProcessState.ExitCode(); code != command.code {
				t.Fatalf("%s: exit code %d, want %d:\n%s", command.args, code, command.code, output)
			}
			requests, err := shared.AuditRequests(begin, func(e cluster.AuditEvent) bool { return e.ImpersonatedUser == user })
			if err != nil {
				t.Fatal(err)
			}
			if took < best.took {
				best = measurement{took, len(requests)}
			}
		}
		measured = append(measured, best)
	}
	return measured
}
