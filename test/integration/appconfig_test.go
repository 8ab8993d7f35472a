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
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	configv1 "github.com/example/demoapp-controller/pkg/apis/config/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	configclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/config/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// configured is a namespace for the AppConfig "shop".
type configured struct {
	*plain[*configv1.AppConfig]
}

func newConfigured(t *testing.T) *configured {
	t.Helper()
	return &configured{newPlain[*configv1.AppConfig](t, "shop", func(client *versioned.Clientset, namespace string) configclient.AppConfigInterface {
		return client.ConfigV1().AppConfigs(namespace)
	}, "appconfig")}
}

func (c *configured) create() {
	c.t.Helper()
	c.add(&configv1.AppConfig{Spec: configv1.AppConfigSpec{
		Application: "shop", Environment: "prod",
		Config: map[string]configv1.Template{"LEVEL": "{{ .Values.level }}"},
		Values: &runtime.RawExtension{Raw: []byte(`{"level": "info", "port": 1000000}`)},
	}})
}

func (c *configured) setLevel(level string) {
	c.t.Helper()
	c.update(func(config *configv1.AppConfig) {
		config.Spec.Values = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"level": %q}`, level)}
	})
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

// deploy creates a Deployment, a StatefulSet and a DaemonSet that use the ConfigMap and ask for
// reloads.
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

// TestAppConfigLife follows an AppConfig from its creation to its deletion, and counts the
// requests.
func TestAppConfigLife(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)

	begin := time.Now()
	c.create()
	first := c.awaitReady()
	c.assertRequests(begin, map[string]int{"patch configmaps": 1, "patch appconfigs/status": 1, "create events": 2})
	if data := c.configMap("shop-config").Data; data["LEVEL"] != "info" {
		t.Errorf("data is %v", data)
	}

	begin = time.Now()
	c.deploy(nil)
	if sets := c.replicaSets(); sets != 1 {
		t.Errorf("a Deployment that is younger than the content has %d ReplicaSets, want 1", sets)
	}
	if got := c.settle(begin); len(got) > 0 {
		t.Errorf("requests for workloads that are younger than the content are %v", got)
	}

	begin = time.Now()
	c.setLevel("debug")
	changed := c.awaitReady()
	c.assertRequests(begin, map[string]int{
		"patch configmaps": 1, "patch deployments": 1, "patch statefulsets": 1, "patch daemonsets": 1,
		"patch appconfigs/status": 2, "create events": 2,
	})
	if changed.Status.ConfigHash == first.Status.ConfigHash || !slices.Equal(changed.Status.Reloaded, []string{"DaemonSet/web", "Deployment/web", "StatefulSet/web"}) {
		t.Errorf("status is %+v", changed.Status)
	}
	if sets := c.replicaSets(); sets != 2 {
		t.Errorf("the Deployment has %d ReplicaSets after a reload, want 2", sets)
	}

	begin = time.Now()
	c.update(func(config *configv1.AppConfig) { config.Spec.Application = "other" })
	c.awaitReady()
	c.settle(begin)
	if _, err := shared.Client.CoreV1().ConfigMaps(c.namespace).Get(t.Context(), "shop-config", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ConfigMap of the former application: %v", err)
	}

	c.remove()
	cluster.Eventually(t.Context(), t, "the ConfigMap is gone", func(ctx context.Context) (bool, error) {
		_, err := shared.Client.CoreV1().ConfigMaps(c.namespace).Get(ctx, "other-config", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// TestAppConfigKeepsFieldsOfTheOwner: the annotation belongs to a field manager of its own, so an
// apply by the tool that owns the Deployment keeps it, and starts no contest.
func TestAppConfigKeepsFieldsOfTheOwner(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.create()
	c.awaitReady()
	apply := func(image string) *appsv1.Deployment {
		manifest := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{
			"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{
				"securityContext":{"runAsNonRoot":true,"runAsUser":65534,"seccompProfile":{"type":"RuntimeDefault"}},
				"containers":[{"name":"web","image":%q,"envFrom":[{"configMapRef":{"name":"shop-config"}}],
					"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}}}`, image)
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
	rolled := c.awaitReady()
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
	c.awaitReady()

	c.update(func(config *configv1.AppConfig) {
		config.Spec.Config["LEVEL"] = configv1.Template("{{ range 9990 }}" + strings.Repeat("x", 100) + "{{ end }}")
	})

	c.awaitReady()
	if size := len(c.configMap("shop-config").Data["LEVEL"]); size != 999_000 {
		t.Errorf("the text has %d bytes", size)
	}
}
