// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	configv1 "github.com/example/demoapp-controller/pkg/apis/config/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	configclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/config/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// installAppConfigs installs the kind, which the operator that runs already waits for.
var installAppConfigs = sync.OnceValue(func() error {
	ctx := context.Background()
	return errors.Join(
		shared.InstallCRDs(ctx, "artifacts/kinds/appconfig/crd.yaml"),
		shared.ApplyFiles(ctx, "", "artifacts/kinds/appconfig/rbac.yaml"),
	)
})

// configured is a namespace, whose pods must meet the restricted profile, with the AppConfig "shop".
type configured struct {
	t         *testing.T
	namespace string
	configs   configclient.AppConfigInterface
}

func newConfigured(t *testing.T) *configured {
	t.Helper()
	if err := installAppConfigs(); err != nil {
		t.Fatal(err)
	}
	client, err := versioned.NewForConfig(shared.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	namespace := shared.Namespace(t)
	showLogOnFailure(t, namespace)
	restricted := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := shared.Client.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, restricted, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	return &configured{t: t, namespace: namespace, configs: client.ConfigV1().AppConfigs(namespace)}
}

func (c *configured) create() {
	c.t.Helper()
	_, err := c.configs.Create(c.t.Context(), &configv1.AppConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: configv1.AppConfigSpec{
			Application: "shop", Environment: "prod",
			Config: map[string]configv1.Template{"LEVEL": "{{ .Values.level }}"},
			Values: &runtime.RawExtension{Raw: []byte(`{"level": "info", "port": 1000000}`)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
}

// change changes the spec of the AppConfig.
func (c *configured) change(change func(*configv1.AppConfigSpec)) {
	c.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		found, err := c.configs.Get(c.t.Context(), "shop", metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&found.Spec)
		_, err = c.configs.Update(c.t.Context(), found, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *configured) setLevel(level string) {
	c.t.Helper()
	c.change(func(spec *configv1.AppConfigSpec) {
		spec.Values = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"level": %q}`, level)}
	})
}

// await returns the AppConfig once its status is about its newest spec and it is healthy.
func (c *configured) await() *configv1.AppConfig {
	c.t.Helper()
	var config *configv1.AppConfig
	cluster.Eventually(c.t.Context(), c.t, "the AppConfig is healthy", func(ctx context.Context) (bool, error) {
		var err error
		if config, err = c.configs.Get(ctx, "shop", metav1.GetOptions{}); err != nil {
			return false, err
		}
		ready := meta.FindStatusCondition(config.Status.Conditions, "Ready")
		if ready == nil || ready.ObservedGeneration != config.Generation || ready.Reason != apimeta.ReasonHealthy {
			return false, fmt.Errorf("status is %+v", config.Status)
		}
		return true, nil
	})
	return config
}

// settle waits until the operator is done in the namespace, and returns what it wrote since, by verb and resource.
func (c *configured) settle(since time.Time) map[string]int {
	c.t.Helper()
	return (&site{t: c.t, namespace: c.namespace}).settle(since)
}

func (c *configured) assertRequests(since time.Time, want map[string]int) {
	c.t.Helper()
	(&site{t: c.t, namespace: c.namespace}).assertRequests(since, want)
}

func (c *configured) configMap(name string) *corev1.ConfigMap {
	c.t.Helper()
	found, err := shared.Client.CoreV1().ConfigMaps(c.namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return found
}

// podTemplate returns pods that meet the restricted profile and use the ConfigMap "shop-config".
func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "shop"}},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(65534)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "shop", Image: "busybox:1.37",
				EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "shop-config"},
				}}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// deploy creates a Deployment, a StatefulSet and a DaemonSet that use the ConfigMap and ask for reloads.
func (c *configured) deploy(labels map[string]string) {
	c.t.Helper()
	apps, template := shared.Client.AppsV1(), podTemplate()
	object := metav1.ObjectMeta{Name: "web", Labels: labels}
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	_, err1 := apps.Deployments(c.namespace).Create(c.t.Context(), &appsv1.Deployment{
		ObjectMeta: object, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	_, err2 := apps.StatefulSets(c.namespace).Create(c.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: object, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	_, err3 := apps.DaemonSets(c.namespace).Create(c.t.Context(), &appsv1.DaemonSet{
		ObjectMeta: object, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	if err := errors.Join(err1, err2, err3); err != nil {
		c.t.Fatal(err)
	}
}

// replicaSets returns the number of ReplicaSets, once the Deployment is complete.
func (c *configured) replicaSets() int {
	c.t.Helper()
	cluster.Eventually(c.t.Context(), c.t, "the Deployment is complete", func(ctx context.Context) (bool, error) {
		d, err := shared.Client.AppsV1().Deployments(c.namespace).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == 1 && d.Status.Replicas == 1 && d.Status.AvailableReplicas == 1, nil
	})
	sets, err := shared.Client.AppsV1().ReplicaSets(c.namespace).List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return len(sets.Items)
}

var reloadLabels = map[string]string{configv1.LabelReload: "true"}

// TestAppConfigLife follows an AppConfig from its creation to its deletion, and counts the requests.
func TestAppConfigLife(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)

	begin := time.Now()
	c.create()
	first := c.await()
	c.assertRequests(begin, map[string]int{"patch configmaps": 1, "patch appconfigs/status": 1, "create events": 2})
	if data := c.configMap("shop-config").Data; data["LEVEL"] != "info" {
		t.Errorf("data is %v", data)
	}

	begin = time.Now()
	c.deploy(reloadLabels)
	if sets := c.replicaSets(); sets != 1 {
		t.Errorf("a Deployment that is younger than the content has %d ReplicaSets, want 1", sets)
	}
	if got := c.settle(begin); len(got) > 0 {
		t.Errorf("requests for workloads that are younger than the content are %v", got)
	}

	begin = time.Now()
	c.setLevel("debug")
	changed := c.await()
	c.assertRequests(begin, map[string]int{
		"patch configmaps": 1, "patch deployments": 1, "patch statefulsets": 1, "patch daemonsets": 1,
		"patch appconfigs/status": 1, "create events": 2,
	})
	if changed.Status.ConfigHash == first.Status.ConfigHash || !slices.Equal(changed.Status.Reloaded, []string{"DaemonSet/web", "Deployment/web", "StatefulSet/web"}) {
		t.Errorf("status is %+v", changed.Status)
	}
	if sets := c.replicaSets(); sets != 2 {
		t.Errorf("the Deployment has %d ReplicaSets after a reload, want 2", sets)
	}

	begin = time.Now()
	c.change(func(spec *configv1.AppConfigSpec) { spec.Application = "other" })
	c.await()
	c.settle(begin)
	if _, err := shared.Client.CoreV1().ConfigMaps(c.namespace).Get(t.Context(), "shop-config", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ConfigMap of the former application: %v", err)
	}

	if err := c.configs.Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "the ConfigMap is gone", func(ctx context.Context) (bool, error) {
		_, err := shared.Client.CoreV1().ConfigMaps(c.namespace).Get(ctx, "other-config", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// TestAppConfigKeepsFieldsOfTheOwner: the annotation belongs to a field manager of its own, so an apply by the tool that
// owns the Deployment keeps it, and starts no contest.
func TestAppConfigKeepsFieldsOfTheOwner(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.create()
	c.await()
	apply := func(image string) *appsv1.Deployment {
		manifest := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{%q:"true"}},"spec":{
			"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{
				"securityContext":{"runAsNonRoot":true,"runAsUser":65534,"seccompProfile":{"type":"RuntimeDefault"}},
				"containers":[{"name":"web","image":%q,"envFrom":[{"configMapRef":{"name":"shop-config"}}],
					"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}}}`, configv1.LabelReload, image)
		d, err := shared.Client.AppsV1().Deployments(c.namespace).Patch(t.Context(), "web", types.ApplyPatchType, []byte(manifest),
			metav1.PatchOptions{FieldManager: "gitops", Force: ptr.To(true)})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	apply("busybox:1.37")
	c.replicaSets()
	c.setLevel("debug")
	rolled := c.await()
	c.settle(time.Now())

	begin := time.Now()
	d := apply("busybox:1.36")

	if hash := d.Spec.Template.Annotations[configv1.AnnotationHash+"shop"]; hash != rolled.Status.ConfigHash {
		t.Errorf("hash is %q after an apply of the owner, want %q", hash, rolled.Status.ConfigHash)
	}
	if got := c.settle(begin); len(got) > 0 {
		t.Errorf("requests after an apply of the owner are %v", got)
	}
}

// TestAppConfigLargestConfig: a rendered config at the limit fits the API server.
func TestAppConfigLargestConfig(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.create()
	c.await()

	c.change(func(spec *configv1.AppConfigSpec) {
		spec.Config["LEVEL"] = configv1.Template("{{ range 9990 }}" + strings.Repeat("x", 100) + "{{ end }}")
	})

	c.await()
	if size := len(c.configMap("shop-config").Data["LEVEL"]); size != 999_000 {
		t.Errorf("the text has %d bytes", size)
	}
}
