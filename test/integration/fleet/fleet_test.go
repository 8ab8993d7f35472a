// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

const (
	// few and many are the sizes that the test compares.
	few, many = 10, 1000
	// limit bounds the fastest of three runs of a command.
	limit = 2 * time.Second
	// lists is the number of lists of a command about all objects, pageSize the objects in a page.
	lists, pageSize = 20, 500
	// user is the name of the user of the commands, by which the audit log distinguishes their requests.
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
	{args: "get demoapp/web-0000"},
	{args: "status demoapp/web-0000"},
	{args: "tree demoapp/web-0000"},
	{args: "tree demoappcluster/web", whole: true},
	{args: "status demoappcluster/web", whole: true},
	{args: "why demoappcluster/web", whole: true},
	{args: "why demoapp/web-0000"},
	{args: "why demoapp/stuck", code: 2},
	{args: "status demoapp/stuck"},
	{args: "history demoapp/web-0000"},
	{args: "values demoapp/web-0000"},
	{args: "diff demoapp/web-0000"},
	{args: "diff demoapp/web-0000 --set spec.message=other", code: 1},
	{args: "rollback demoapp/web-0000 --to 1 --yes"},
	{args: "report", whole: true},
}

// TestCommandsInFleet runs the commands with few and with many DemoApps. Each stays below the
// limit, and a command about one object sends the same requests for any number of DemoApps.
func TestCommandsInFleet(t *testing.T) {
	program := build(t)
	ns := apps.NewExclusive(t, shared)
	cluster.StartOperator(t.Context(), t, shared)
	stuck := apps.Named("stuck")
	stuck.Spec.Image = "registry.invalid/web:1"
	ns.Create(stuck)

	deploy(t, ns.Name)
	ns.AwaitAll(addNodes(t, 0, few), 1)
	before := measure(t, program, ns.Name)
	ns.AwaitAll(addNodes(t, few, many), 1)
	after := measure(t, program, ns.Name)

	for i, command := range commands {
		small, large := before[i], after[i]
		t.Logf("%-48s %2d requests beside %d, %2d beside %d; %v", command.args, small.requests, few, large.requests, many, large.took.Round(time.Millisecond))
		if large.took > limit {
			t.Errorf("%s took %v beside %d DemoApps, want less than %v", command.args, large.took, many, limit)
		}
		allowed := small.requests
		if command.whole {
			allowed += lists * (many/pageSize + 1)
		}
		if large.requests > allowed {
			t.Errorf("%s sends %d requests beside %d DemoApps, and %d beside %d, want at most %d", command.args, small.requests, few, large.requests, many, allowed)
		}
	}
}

// deploy creates the DemoAppCluster "web", whose DemoApps have no pods.
func deploy(t *testing.T, namespace string) {
	t.Helper()
	client, err := versioned.NewForConfig(shared.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	clusters := client.DemoV1alpha1().DemoAppClusters(namespace)
	_, err = clusters.Create(t.Context(), &v1alpha1.DemoAppCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       v1alpha1.DemoAppClusterSpec{Template: v1alpha1.DemoAppTemplate{Spec: apps.WithoutPods("web").Spec}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := clusters.Delete(context.WithoutCancel(t.Context()), "web", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// addNodes creates the nodes first to end-1, to which no pods are scheduled, and returns the names
// of their DemoApps.
func addNodes(t *testing.T, first, end int) []string {
	t.Helper()
	var names []string
	for i := first; i < end; i++ {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%04d", i)}, Spec: corev1.NodeSpec{Unschedulable: true}}
		if _, err := shared.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		names = append(names, "web-"+node.Name)
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
