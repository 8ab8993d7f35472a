// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	demov1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
)

const demoAppExample = "artifacts/examples/demoapp.yaml"

var (
	crds     = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	demoApps = demov1alpha1.SchemeGroupVersion.WithResource("demoapps")
)

// bothCRDs are the CRDs of the default installation.
var bothCRDs = []string{"demoappclusters.demo.example.com", "demoapps.demo.example.com"}

// TestInstallFile installs artifacts/install.yaml on a cluster that has nothing of the operator,
// runs the operator, and uninstalls it.
func TestInstallFile(t *testing.T) {
	kubectl(t.Context(), t, "apply", "--server-side", "--validate=strict", "--filename=artifacts/install.yaml")
	t.Cleanup(func() {
		kubectl(context.WithoutCancel(t.Context()), t, "delete", "--ignore-not-found", "--filename=artifacts/install.yaml")
	})

	checkInstallation(t)
}

// TestKustomize is TestInstallFile for artifacts/deploy, applied as most users do: without
// server-side apply.
func TestKustomize(t *testing.T) {
	kubectl(t.Context(), t, "apply", "--validate=strict", "--kustomize=artifacts/deploy")
	t.Cleanup(func() {
		kubectl(context.WithoutCancel(t.Context()), t, "delete", "--ignore-not-found", "--kustomize=artifacts/deploy")
	})

	checkInstallation(t)
}

// TestChart is TestInstallFile for the chart. The CRDs, and so DemoApps, survive the uninstall.
func TestChart(t *testing.T) {
	createNamespace(t, namespace)
	removeCRDsAtEnd(t)
	helmInstall(t, loadChart(t), nil)

	checkInstallation(t)
	demoApp := createDemoApp(t, shared.Namespace(t))
	helmUninstall(t)

	if got := crdNames(t); !slices.Equal(got, bothCRDs) {
		t.Errorf("after the uninstall, the CRDs are %v", got)
	}
	if _, err := shared.Dynamic.Resource(demoApps).Namespace(demoApp.GetNamespace()).Get(t.Context(), demoApp.GetName(), metav1.GetOptions{}); err != nil {
		t.Errorf("the uninstall removed the DemoApp: %v", err)
	}
	_, err := shared.Client.AppsV1().Deployments(namespace).Get(t.Context(), releaseName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the uninstall left the Deployment (%v)", err)
	}
}

// TestChartTakesOverManifests applies artifacts/deploy with kubectl, and moves to the chart as
// docs/install.md says. The DemoApp stays the same object.
func TestChartTakesOverManifests(t *testing.T) {
	removeCRDsAtEnd(t)
	t.Cleanup(func() { removeNamespace(context.WithoutCancel(t.Context()), t, namespace) })
	kubectl(t.Context(), t, "apply", "--kustomize=artifacts/deploy")
	demoApp := createDemoApp(t, shared.Namespace(t))

	kubectl(t.Context(), t, "--namespace="+namespace, "delete", "deployment", releaseName)
	helmInstall(t, loadChart(t), nil, func(install *action.Install) { install.TakeOwnership, install.ForceConflicts = true, true })

	budget, err := shared.Client.PolicyV1().PodDisruptionBudgets(namespace).Get(t.Context(), releaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := budget.Spec.Selector.MatchLabels["app.kubernetes.io/instance"]; got != releaseName {
		t.Errorf("the PodDisruptionBudget selects the instance %q", got)
	}
	live, err := shared.Dynamic.Resource(demoApps).Namespace(demoApp.GetNamespace()).Get(t.Context(), demoApp.GetName(), metav1.GetOptions{})
	if err != nil || live.GetUID() != demoApp.GetUID() {
		t.Errorf("the move replaced the DemoApp (%v)", err)
	}
	removeDemoApp(t, demoApp.GetNamespace(), demoApp.GetName())
	checkInstallation(t)
}

// TestChartUpgradesCRDs upgrades from a chart whose CRD has no spec.suspend. The CRD and the
// DemoApp stay the same objects.
func TestChartUpgradesCRDs(t *testing.T) {
	createNamespace(t, namespace)
	removeCRDsAtEnd(t)
	older := loadChart(t)
	for _, file := range older.Files {
		if file.Name == "files/crds/demo.example.com_demoapps.yaml" {
			removeSuspend(t, file)
		}
	}
	helmInstall(t, older, nil)
	before := definition(t)
	demoApp := createDemoApp(t, shared.Namespace(t))

	upgrade := action.NewUpgrade(helm(t))
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = namespace, kube.HookOnlyStrategy, helmTimeout
	_, err := upgrade.RunWithContext(t.Context(), releaseName, loadChart(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	after := definition(t)
	if hasSuspend(before) || !hasSuspend(after) {
		t.Errorf("spec.suspend in the CRD: %t before the upgrade, %t after", hasSuspend(before), hasSuspend(after))
	}
	if before.GetUID() != after.GetUID() {
		t.Error("the upgrade replaced the CRD")
	}
	live, err := shared.Dynamic.Resource(demoApps).Namespace(demoApp.GetNamespace()).Get(t.Context(), demoApp.GetName(), metav1.GetOptions{})
	if err != nil || live.GetUID() != demoApp.GetUID() {
		t.Errorf("the upgrade replaced the DemoApp (%v)", err)
	}
}

// checkInstallation asserts that the operator's pods run under the restricted profile, and that the
// operator works with the flags, the environment and the permissions of the installation.
func checkInstallation(t *testing.T) {
	t.Helper()
	awaitPods(t)
	refusePrivilegedPod(t)
	operator := cluster.StartInstalledOperator(t.Context(), t, shared, deployment)
	target := shared.Namespace(t)

	example := applyExample(t, target)

	shared.AwaitReady(t.Context(), t, target, example)
	metrics, err := operator.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("leader_election_master_status{name=%q} 1", releaseName); !strings.Contains(metrics, text) {
		t.Errorf("the metrics do not have %s", text)
	}
	removeDemoApp(t, target, example.GetName())
	if code := operator.Stop(); code != 0 {
		t.Errorf("the operator ended with exit code %d", code)
	}
}

// awaitPods waits until the controllers of Kubernetes have created the operator's pods, and they
// run on different nodes.
func awaitPods(t *testing.T) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "two replicas ready", func(ctx context.Context) (bool, error) {
		live, err := shared.Client.AppsV1().Deployments(namespace).Get(ctx, releaseName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return live.Status.ReadyReplicas == 2, fmt.Errorf("status %+v", live.Status)
	})
	pods, err := shared.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for i := range pods.Items {
		nodes = append(nodes, pods.Items[i].Spec.NodeName)
	}
	if slices.Sort(nodes); len(slices.Compact(slices.Clone(nodes))) != 2 {
		t.Errorf("the replicas run on the nodes %v", nodes)
	}
	budget, err := shared.Client.PolicyV1().PodDisruptionBudgets(namespace).Get(t.Context(), releaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("the PodDisruptionBudget allows %s replicas to be unavailable", budget.Spec.MaxUnavailable)
	}
}

// refusePrivilegedPod asserts that Pod Security admission is in force, without which awaitPods
// would prove nothing.
func refusePrivilegedPod(t *testing.T) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "privileged"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
	}
	_, err := shared.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
		t.Errorf("a pod without a security context: %v", err)
	}
}

// applyExample applies the example of a DemoApp.
func applyExample(t *testing.T, target string) *object {
	t.Helper()
	objects, err := shared.Objects(demoAppExample)
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.ApplyObject(t.Context(), target, objects[0]); err != nil {
		t.Fatal(err)
	}
	return objects[0]
}

// createDemoApp applies the example while no operator runs, and returns the live object.
func createDemoApp(t *testing.T, target string) *object {
	t.Helper()
	example := applyExample(t, target)
	live, err := shared.Dynamic.Resource(demoApps).Namespace(target).Get(t.Context(), example.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return live
}

// removeDemoApp deletes a DemoApp and waits until the operator has removed its finalizer.
func removeDemoApp(t *testing.T, target, name string) {
	t.Helper()
	client := shared.Dynamic.Resource(demoApps).Namespace(target)
	if err := client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "DemoApp removed", func(ctx context.Context) (bool, error) {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}

// removeCRDsAtEnd removes the CRDs, which the chart keeps.
func removeCRDsAtEnd(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		kubectl(context.WithoutCancel(t.Context()), t, "delete", "--ignore-not-found", "--kustomize=artifacts/crds")
	})
}

// definition returns the CRD of DemoApps.
func definition(t *testing.T) *object {
	t.Helper()
	crd, err := shared.Dynamic.Resource(crds).Get(t.Context(), bothCRDs[1], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return crd
}

// specProperties is the path of the properties of spec in a version of a CRD.
var specProperties = []string{"schema", "openAPIV3Schema", "properties", "spec", "properties"}

func hasSuspend(crd *object) bool {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)
	_, found, _ := unstructured.NestedFieldNoCopy(version, append(slices.Clone(specProperties), "suspend")...)
	return found
}

// removeSuspend removes spec.suspend from the file of the CRD.
func removeSuspend(t *testing.T, file *common.File) {
	t.Helper()
	crd := decode(t, string(file.Data))[0]
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	version, _ := versions[0].(map[string]any)
	unstructured.RemoveNestedField(version, append(slices.Clone(specProperties), "suspend")...)
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	file.Data = []byte(toYAML(t, crd.Object))
}
