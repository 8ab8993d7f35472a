// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/example/demoapp-controller/pkg/refusal"
	"github.com/example/demoapp-controller/pkg/ssa"
	"github.com/example/demoapp-controller/test/cluster"
)

// refusalCase has Kubernetes say a text. say returns the message, and the subject of the text.
type refusalCase struct {
	text refusal.Text
	say  func(t *testing.T, namespace string) (message, subject string)
}

// ofKubelet are the texts of a kubelet, which simulated nodes do not have. The tests of a real node read them.
var ofKubelet = []string{"ConfigMapMissing", "RootRefused", "SecretMissing"}

// TestRefusalTexts has Kubernetes say each text of package refusal.
func TestRefusalTexts(t *testing.T) {
	t.Parallel()
	cases := map[string]refusalCase{
		"QuotaExceeded": {refusal.QuotaExceeded, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			shared.Forbid(t.Context(), t, namespace, "count/secrets")
			_, err := shared.Client.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			return textOf(err), "none"
		}},
		"QuotaUnspecified": {refusal.QuotaUnspecified, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			shared.Forbid(t.Context(), t, namespace, corev1.ResourceRequestsMemory)
			return createPod(t, namespace, nil), "none"
		}},
		"LimitExceeded": {refusal.LimitExceeded, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			_, err := shared.Client.CoreV1().LimitRanges(namespace).Create(t.Context(), &corev1.LimitRange{
				ObjectMeta: metav1.ObjectMeta{Name: "small"},
				Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
					Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
				}}},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			large := func(pod *corev1.PodSpec) {
				pod.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			}
			var message string
			cluster.Eventually(t.Context(), t, "the LimitRange holds", func(context.Context) (bool, error) {
				message = createPod(t, namespace, large)
				return message != "", nil
			})
			return message, ""
		}},
		"PodSecurityViolated": {refusal.PodSecurityViolated, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			patchNamespace(t, namespace, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
			return createPod(t, namespace, nil), ""
		}},
		"WebhookDenied": {refusal.WebhookDenied, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			webhook{namespace: namespace, version: "v1", resource: "secrets", mutates: true}.serve(t)
			_, err := shared.Client.CoreV1().ConfigMaps(namespace).Create(t.Context(), configMapNamed("probe"), metav1.CreateOptions{})
			return textOf(err), "review.example.com"
		}},
		"WebhookFailed": {refusal.WebhookFailed, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			url := "https://127.0.0.1:1"
			hook := webhook{namespace: namespace, version: "v1", resource: "secrets"}
			hook.register(t, admissionregistrationv1.WebhookClientConfig{URL: &url}, "true")
			t.Cleanup(func() {
				err := shared.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
					Delete(context.WithoutCancel(t.Context()), hook.name(), metav1.DeleteOptions{})
				if err != nil {
					t.Error(err)
				}
			})
			var message string
			cluster.Eventually(t.Context(), t, "the webhook is called", func(ctx context.Context) (bool, error) {
				_, err := shared.Client.CoreV1().ConfigMaps(namespace).Create(ctx, configMapNamed("a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				message = textOf(err)
				return err != nil, nil
			})
			return message, "review.example.com"
		}},
		"PolicyDenied": {refusal.PolicyDenied, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			var message string
			policy{
				name: "none-" + namespace, namespace: namespace, version: "v1", resource: "configmaps", expression: "false", message: `"no"`,
			}.apply(t, func(ctx context.Context) error {
				_, err := shared.Client.CoreV1().ConfigMaps(namespace).Create(ctx, configMapNamed("a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				message = textOf(err)
				return err
			})
			return message, "none-" + namespace
		}},
		"NamespaceTerminating": {refusal.NamespaceTerminating, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			kept := configMapNamed("kept")
			kept.Finalizers = []string{"example.org/hold"}
			configMaps := shared.Client.CoreV1().ConfigMaps(namespace)
			if _, err := configMaps.Create(t.Context(), kept, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_, err := configMaps.Patch(context.WithoutCancel(t.Context()), kept.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				if err != nil {
					t.Error(err)
				}
			})
			if err := shared.Client.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			_, err := configMaps.Create(t.Context(), configMapNamed("a"), metav1.CreateOptions{})
			return textOf(err), namespace
		}},
		"NamespaceMissing": {refusal.NamespaceMissing, func(t *testing.T, _ string) (string, string) {
			t.Helper()
			_, err := shared.Client.CoreV1().ConfigMaps("absent").Create(t.Context(), configMapNamed("a"), metav1.CreateOptions{})
			return textOf(err), "absent"
		}},
		"ServiceAccountMissing": {refusal.ServiceAccountMissing, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			return createPod(t, namespace, func(pod *corev1.PodSpec) { pod.ServiceAccountName = "absent" }), "absent"
		}},
		"PriorityClassMissing": {refusal.PriorityClassMissing, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			return createPod(t, namespace, func(pod *corev1.PodSpec) { pod.PriorityClassName = "absent" }), "absent"
		}},
		"PermissionMissing": {refusal.PermissionMissing, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			return listAsNobody(t, namespace), "nobody"
		}},
		"ImpersonationMissing": {refusal.ImpersonationMissing, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			_, err := asDeployer(t, namespace).CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
			return textOf(err), ""
		}},
		"PermissionNamespace": {refusal.PermissionNamespace, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			return listAsNobody(t, namespace), namespace
		}},
		"Immutable": {refusal.Immutable, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			return textOf(changeClaims(t, namespace)), ""
		}},
		"PortAllocated": {refusal.PortAllocated, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			services := shared.Client.CoreV1().Services(namespace)
			service := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "first"},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
			}
			first, err := services.Create(t.Context(), service, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			service.Name, service.Spec.Ports[0].NodePort = "second", first.Spec.Ports[0].NodePort
			_, err = services.Create(t.Context(), service, metav1.CreateOptions{})
			return textOf(err), ""
		}},
		"FieldUnknown": {refusal.FieldUnknown, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			configMaps := shared.Client.CoreV1().ConfigMaps(namespace)
			if _, err := configMaps.Create(t.Context(), configMapNamed("a"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			_, err := configMaps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"dta":{}}`), metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
			return textOf(err), "dta"
		}},
		"ClaimMissing": {refusal.ClaimMissing, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			return awaitUnscheduled(t, namespace, "absent"), "absent"
		}},
		"ClaimsUnbound": {refusal.ClaimsUnbound, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			createClaim(t, namespace, "unbound", "")
			return awaitUnscheduled(t, namespace, "unbound"), ""
		}},
		"StorageClassMissing": {refusal.StorageClassMissing, func(t *testing.T, namespace string) (string, string) {
			t.Helper()
			createClaim(t, namespace, "a", "absent")
			var message string
			cluster.Eventually(t.Context(), t, "an event says why the claim waits", func(ctx context.Context) (bool, error) {
				events, err := shared.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=ProvisioningFailed"})
				if err != nil || len(events.Items) == 0 {
					return false, err
				}
				message = events.Items[0].Message
				return true, nil
			})
			return message, "absent"
		}},
		"KindMissing": {refusal.KindMissing, func(t *testing.T, _ string) (string, string) {
			t.Helper()
			_, err := shared.Mapping(schema.GroupKind{Group: "example.org", Kind: "Absent"}, "v1")
			return textOf(err), "Absent"
		}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message, subject := test.say(t, shared.Namespace(t))
			if !test.text.In(message) || test.text.Subject(message) != subject {
				t.Errorf("%q: found: %t, subject %q, want %q", message, test.text.In(message), test.text.Subject(message), subject)
			}
		})
	}

	source, err := os.ReadFile(filepath.Join(shared.Root(), "pkg", "refusal", "refusal.go"))
	if err != nil {
		t.Fatal(err)
	}
	var defined []string
	for _, match := range regexp.MustCompile(`(?m)^(?:\t|var )(\w+) += text\(`).FindAllSubmatch(source, -1) {
		defined = append(defined, string(match[1]))
	}
	slices.Sort(defined)
	if played := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(cases)), ofKubelet))); !slices.Equal(defined, played) {
		t.Errorf("the cases are %q, and the texts %q", played, defined)
	}
}

// TestRefusalsHaveCauses holds the parts of answers that decisions follow from, on each version.
func TestRefusalsHaveCauses(t *testing.T) {
	t.Parallel()
	namespace := shared.Namespace(t)

	t.Run("claims of a StatefulSet", func(t *testing.T) {
		t.Parallel()
		fields := ssa.RefusedFields(changeClaims(t, namespace))
		if want := []string{"spec"}; shared.Minor() < 37 && !slices.Equal(fields, want) {
			t.Errorf("fields %q, want %q", fields, want)
		}
		if want := "spec.volumeClaimTemplates"; shared.Minor() >= 37 && !slices.Contains(fields, want) {
			t.Errorf("fields %q, want %q", fields, want)
		}
	})
	t.Run("impersonation", func(t *testing.T) {
		t.Parallel()
		client := asDeployer(t, namespace)

		_, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
		if !ssa.IsImpersonationRefused(err, "deployer") {
			t.Errorf("%v is no refusal to act as the account", err)
		}

		allowAll(t, namespace, "default", rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{"deployer"}, Verbs: []string{"impersonate"},
		})
		cluster.Eventually(t.Context(), t, "the sender may act as the account, which may not list", func(ctx context.Context) (bool, error) {
			_, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
			return err != nil && !ssa.IsImpersonationRefused(err, "deployer"), err
		})
	})
}

// asDeployer returns a client of the ServiceAccount default that acts as the ServiceAccount deployer.
func asDeployer(t *testing.T, namespace string) kubernetes.Interface {
	t.Helper()
	config, err := shared.ServiceAccountConfig(t.Context(), namespace, "default")
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate.UserName = fmt.Sprintf("system:serviceaccount:%s:deployer", namespace)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// textOf returns the text of an error; empty for none.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func configMapNamed(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func patchNamespace(t *testing.T, name, patch string) {
	t.Helper()
	if _, err := shared.Client.CoreV1().Namespaces().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// pod returns a pod that change changes.
func pod(name string, change func(*corev1.PodSpec)) *corev1.Pod {
	made := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "nginx"}}},
	}
	if change != nil {
		change(&made.Spec)
	}
	return made
}

// createPod creates a pod, and returns the refusal.
func createPod(t *testing.T, namespace string, change func(*corev1.PodSpec)) string {
	t.Helper()
	_, err := shared.Client.CoreV1().Pods(namespace).Create(t.Context(), pod("a", change), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return textOf(err)
}

// listAsNobody lists pods as a user without permissions, and returns the refusal.
func listAsNobody(t *testing.T, namespace string) string {
	t.Helper()
	config := shared.AdminConfig()
	config.Impersonate.UserName = "nobody"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	return textOf(err)
}

// changeClaims changes the size in the claims of a new StatefulSet, and returns the refusal.
func changeClaims(t *testing.T, namespace string) error {
	t.Helper()
	labels := map[string]string{"app": "a"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: appsv1.StatefulSetSpec{
			Selector:             &metav1.LabelSelector{MatchLabels: labels},
			Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("a", nil).Spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{newClaim("data", "1Gi")},
		},
	}
	sets := shared.Client.AppsV1().StatefulSets(namespace)
	made, err := sets.Create(t.Context(), set, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	_, err = sets.Update(t.Context(), made, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func newClaim(name, size string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
}

// createClaim creates a claim of a StorageClass. No class provisions volumes.
func createClaim(t *testing.T, namespace, name, class string) {
	t.Helper()
	claim := newClaim(name, "1Gi")
	claim.Spec.StorageClassName = &class
	if _, err := shared.Client.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), &claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitUnscheduled creates a pod with a claim, and returns why the scheduler finds no node.
func awaitUnscheduled(t *testing.T, namespace, claim string) string {
	t.Helper()
	pods := shared.Client.CoreV1().Pods(namespace)
	_, err := pods.Create(t.Context(), pod("a", func(spec *corev1.PodSpec) {
		spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
	}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var message string
	cluster.Eventually(t.Context(), t, "the scheduler says why", func(ctx context.Context) (bool, error) {
		live, err := pods.Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range live.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				message = condition.Message
			}
		}
		return message != "", nil
	})
	return message
}

// allowAll gives the permissions of the rule to a ServiceAccount.
func allowAll(t *testing.T, namespace, account string, rule rbacv1.PolicyRule) {
	t.Helper()
	metadata := metav1.ObjectMeta{Name: "allowed"}
	_, err := shared.Client.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metadata, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = shared.Client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metadata, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "allowed"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
