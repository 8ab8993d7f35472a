// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package install

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/cluster"
)

// TestMakeTargets deploys and removes the operator with make, on the cluster of KUBECONFIG.
func TestMakeTargets(t *testing.T) {
	const image = "registry.example.com/demoapp-controller:test"
	target := shared.Namespace(t)
	removeCRDsAtEnd(t)
	for _, name := range []string{namespace, auditNamespace} {
		t.Cleanup(func() { removeNamespace(context.WithoutCancel(t.Context()), t, name) })
	}

	succeed(t, "install")
	if got := crdNames(t); !slices.Equal(got, bothCRDs) {
		t.Errorf("make install: the CRDs are %v", got)
	}
	demoApp := createDemoApp(t, target)

	succeed(t, "deploy", "IMAGE="+image)
	live, err := shared.Client.AppsV1().Deployments(namespace).Get(t.Context(), releaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := live.Spec.Template.Spec.Containers[0].Image; got != image {
		t.Errorf("make deploy: the image is %s", got)
	}

	succeed(t, "undeploy")
	_, err = shared.Client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("make undeploy: the namespace is there (%v)", err)
	}
	if _, err := shared.Client.CoreV1().Namespaces().Get(t.Context(), auditNamespace, metav1.GetOptions{}); err != nil {
		t.Errorf("make undeploy: the namespace of the audit records: %v", err)
	}
	output, err := runMake(t, "uninstall")
	if err == nil || !strings.Contains(output, "delete these first") || !strings.Contains(output, demoApp.GetName()) {
		t.Errorf("make uninstall with a DemoApp: %v\n%s", err, output)
	}

	removeDemoApp(t, target, demoApp.GetName())
	succeed(t, "uninstall")
	if got := crdNames(t); len(got) > 0 {
		t.Errorf("make uninstall: the CRDs are %v", got)
	}
	// There is nothing left, which is no error.
	succeed(t, "uninstall")
	succeed(t, "undeploy")
}

// TestMakeWithoutKubeconfig asserts that the targets take the file that kubectl takes, without KUBECONFIG.
func TestMakeWithoutKubeconfig(t *testing.T) {
	for _, target := range []string{"install", "uninstall", "run", "deploy", "undeploy"} {
		output, err := runMake(t, target, "--dry-run", "IMG=registry.example.com/demoapp-controller:test", "KUBECONFIG=", "HOME=/home/user")
		if err != nil || !strings.Contains(output, "--kubeconfig=/home/user/.kube/config ") {
			t.Errorf("make %s: %v\n%s", target, err, output)
		}
	}
}

// TestMakeDeployRefusesImages asserts that make deploys no image that nodes cannot pull, and
// nothing that is no image.
func TestMakeDeployRefusesImages(t *testing.T) {
	tests := map[string][]string{
		"set IMG to an image":             nil,
		"IMG is no reference of an image": {"IMG=registry.example.com/a|b&c"},
	}
	for want, args := range tests {
		output, err := runMake(t, append([]string{"deploy"}, args...)...)
		if err == nil || !strings.Contains(output, want) {
			t.Errorf("make deploy %v: %v\n%s", args, err, output)
		}
	}
}

// TestMakeRun runs the operator of the tree, which makes a DemoApp ready.
func TestMakeRun(t *testing.T) {
	target := shared.Namespace(t)
	removeCRDsAtEnd(t)
	t.Cleanup(func() { removeNamespace(context.WithoutCancel(t.Context()), t, namespace) })
	succeed(t, "install")
	command, output := makeCommand(t, "run",
		"RUN_FLAGS=--metrics-bind-address="+cluster.FreeAddress(t.Context(), t)+" --health-probe-bind-address=0")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The group is make, its shell and the operator. make fails, because a signal ended its
		// command.
		if err := syscall.Kill(-command.Process.Pid, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_ = command.Wait()
		if t.Failed() {
			t.Log(output.String())
		}
	})

	example := applyExample(t, target)

	shared.AwaitReady(t.Context(), t, target, example)
	removeDemoApp(t, target, example.GetName())
}

// succeed runs a target of the Makefile, which must succeed.
func succeed(t *testing.T, args ...string) {
	t.Helper()
	if output, err := runMake(t, args...); err != nil {
		t.Fatalf("make %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

func runMake(t *testing.T, args ...string) (string, error) {
	t.Helper()
	command, output := makeCommand(t, args...)
	err := command.Run()
	return output.String(), err
}

// makeCommand returns a make command and its output. Of two settings of a variable, the last one
// counts.
func makeCommand(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	args = append([]string{"KUBECONFIG=" + shared.Kubeconfig(), "KUBECTL=" + shared.Kubectl()}, args...)
	command := exec.CommandContext(context.WithoutCancel(t.Context()), "make", args...)
	command.Dir = shared.Root()
	// A make that runs the tests passes its flags on.
	// An image of the environment would be the image of "make deploy".
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "IMG=") || strings.HasPrefix(variable, "IMAGE=")
	})
	output := &bytes.Buffer{}
	command.Stdout, command.Stderr = output, output
	return command, output
}
