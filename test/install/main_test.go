// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package install

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/example/demoapp-controller/test/cluster"
)

// helmTimeout bounds an operation of Helm.
const helmTimeout = 2 * time.Minute

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{}, func(c *cluster.Cluster) { shared = c }))
}

// deployment is the operator's Deployment.
var deployment = types.NamespacedName{Namespace: namespace, Name: releaseName}

// kubectl runs kubectl in the root of the repository, and returns its output.
func kubectl(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(ctx, shared.Kubectl(), append([]string{"--kubeconfig=" + shared.Kubeconfig()}, args...)...)
	command.Dir = shared.Root()
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output.String())
	}
	return output.String()
}

// helm returns the configuration of a helm command, which validates manifests with the API server's
// schemas.
func helm(t *testing.T) *action.Configuration {
	t.Helper()
	kubeconfig, cache, target := shared.Kubeconfig(), t.TempDir(), namespace
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.CacheDir, flags.Namespace = &kubeconfig, &cache, &target
	configuration := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := configuration.Init(flags, namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	return configuration
}

// helmInstall installs a chart as "helm install" does with flags, until the end of the test.
func helmInstall(t *testing.T, chart *chartv2.Chart, given values, flags ...func(*action.Install)) {
	t.Helper()
	install := action.NewInstall(helm(t))
	install.ReleaseName, install.Namespace = releaseName, namespace
	install.WaitStrategy, install.Timeout = kube.HookOnlyStrategy, helmTimeout
	for _, flag := range flags {
		flag(install)
	}
	t.Cleanup(func() { helmUninstall(t) })
	if _, err := install.RunWithContext(t.Context(), chart, given); err != nil {
		t.Fatal(err)
	}
}

// helmUninstall uninstalls the release, if it is installed, as "helm uninstall" does.
func helmUninstall(t *testing.T) {
	t.Helper()
	uninstall := action.NewUninstall(helm(t))
	uninstall.IgnoreNotFound = true
	uninstall.WaitStrategy, uninstall.Timeout = kube.HookOnlyStrategy, helmTimeout
	if _, err := uninstall.Run(releaseName); err != nil {
		t.Fatal(err)
	}
}

// createNamespace creates a namespace, with the restricted Pod Security profile, until the end of
// the test.
func createNamespace(t *testing.T, name string) {
	t.Helper()
	_, err := shared.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeNamespace(context.WithoutCancel(t.Context()), t, name) })
}

// removeNamespace deletes a namespace and waits until it is gone, for the next test.
func removeNamespace(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	namespaces := shared.Client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	cluster.Eventually(ctx, t, "namespace "+name+" removed", func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}

// crdNames returns the names of the installed CRDs of DemoApps.
func crdNames(t *testing.T) []string {
	t.Helper()
	list, err := shared.Dynamic.Resource(crds).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if name := list.Items[i].GetName(); strings.HasSuffix(name, ".demo.example.com") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
