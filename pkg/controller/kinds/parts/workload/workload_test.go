// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
	"github.com/example/demoapp-controller/test/expect"
)

func TestPodIsRestricted(t *testing.T) {
	pod := workload.Pod(101, workload.Container("web", "nginx"))

	want := corev1ac.PodSpec().WithAutomountServiceAccountToken(false).WithEnableServiceLinks(false).
		WithSecurityContext(corev1ac.PodSecurityContext().WithRunAsNonRoot(true).WithRunAsUser(101).WithRunAsGroup(101).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(corev1ac.Container().WithName("web").WithImage("nginx").WithImagePullPolicy(corev1.PullAlways).
			WithSecurityContext(corev1ac.SecurityContext().WithAllowPrivilegeEscalation(false).
				WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))))
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
}

func TestPodOfImageWithUser(t *testing.T) {
	security := workload.Pod(0).SecurityContext

	if security.RunAsUser != nil || !*security.RunAsNonRoot {
		t.Errorf("security context is %+v, want no user and runAsNonRoot", security)
	}
}

// TestPullPolicy holds that the policy is the default of the API server, which does not set it
// again when the image changes.
func TestPullPolicy(t *testing.T) {
	images := map[corev1.PullPolicy][]string{
		corev1.PullAlways: {"nginx", "nginx:latest", "registry.example.com:5000/team/app"},
		corev1.PullIfNotPresent: {
			"nginx:1.27", "registry.example.com:5000/team/app:v1", "registry.example.com/team/app@sha256:0123",
		},
	}
	for want, of := range images {
		for _, image := range of {
			if got := *workload.Container("web", image).ImagePullPolicy; got != want {
				t.Errorf("%s: %s, want %s", image, got, want)
			}
		}
	}
}

func TestListenOnAllowsLowPorts(t *testing.T) {
	for port, sysctls := range map[int32]int{80: 1, 1023: 1, 1024: 0, 8080: 0} {
		pod := workload.Pod(0, workload.Container("web", "web:1"))

		workload.ListenOn(pod, port)

		if got := len(pod.SecurityContext.Sysctls); got != sysctls {
			t.Errorf("%d sysctls for port %d, want %d", got, port, sysctls)
		}
	}
}

func TestSecureSetsOnlyGivenFields(t *testing.T) {
	container := workload.Container("web", "nginx")

	workload.Secure(container, &workloadv1alpha1.SecurityContext{
		RunAsUser: ptr.To[int64](1000), Capabilities: &workloadv1alpha1.Capabilities{Add: []string{"NET_BIND_SERVICE"}, Drop: []string{"ALL"}},
	})

	want := corev1ac.SecurityContext().WithAllowPrivilegeEscalation(false).WithRunAsUser(1000).
		WithCapabilities(corev1ac.Capabilities().WithAdd("NET_BIND_SERVICE").WithDrop("ALL"))
	if diff := cmp.Diff(want, container.SecurityContext); diff != "" {
		t.Errorf("security context (-want +got):\n%s", diff)
	}
}

func TestResources(t *testing.T) {
	if got := workload.Resources(&workloadv1alpha1.Resources{}); got != nil {
		t.Errorf("empty resources are applied as %v, want nothing", got)
	}
	if got := workload.Resources(nil); got != nil {
		t.Errorf("resources of none are %+v", got)
	}

	got := workload.Resources(&workloadv1alpha1.Resources{Limits: workloadv1alpha1.ResourceList{"cpu": resource.MustParse("1")}})

	want := corev1ac.ResourceRequirements().WithLimits(corev1.ResourceList{"cpu": resource.MustParse("1")})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

func TestPodsHaveLabelsAndSelector(t *testing.T) {
	named := workload.Named{Name: "shop", Labels: map[string]string{"platform": "shop"}, Selector: map[string]string{"component": "web"}}

	deployment, service := workload.Deployment(named, 2, workload.Pod(0)), workload.Service(named, "http", 8080)

	labels := map[string]string{"platform": "shop", "component": "web"}
	if diff := cmp.Diff(labels, deployment.Spec.Template.Labels); diff != "" {
		t.Errorf("labels of the pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(named.Selector, deployment.Spec.Selector.MatchLabels); diff != "" {
		t.Errorf("selector of the Deployment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(named.Selector, service.Spec.Selector); diff != "" {
		t.Errorf("selector of the Service (-want +got):\n%s", diff)
	}
}

// TestPodsEndAfterTheirRequests: a container that serves gets its signal when clients have left it.
func TestPodsEndAfterTheirRequests(t *testing.T) {
	serving := workload.Container("web", "web:1").WithPorts(workload.Port("http", 8080))

	pod := workload.Deployment(workload.Named{Name: "web"}, 1, workload.Pod(0, serving, workload.Container("sidecar", "log:1"))).Spec.Template.Spec

	if grace := ptr.Deref(pod.TerminationGracePeriodSeconds, 0); grace != 35 {
		t.Errorf("grace period is %d s, want 35", grace)
	}
	if hook := pod.Containers[0].Lifecycle; hook == nil || *hook.PreStop.Sleep.Seconds != 5 {
		t.Errorf("lifecycle is %+v, want a sleep of 5 s", hook)
	}
	if hook := pod.Containers[1].Lifecycle; hook != nil {
		t.Errorf("lifecycle of a container without a port is %+v, want none", hook)
	}
}

// TestProfile: the namespace or a field asks for the restricted profile. Other pods run the stock images of
// registries, which start as root.
func TestProfile(t *testing.T) {
	tests := map[string]struct {
		enforced   bool
		given      *workloadv1alpha1.SecurityContext
		restricted bool
	}{
		"no level":                        {false, nil, false},
		"the restricted level":            {true, nil, true},
		"another field":                   {false, &workloadv1alpha1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}, false},
		"no root":                         {false, &workloadv1alpha1.SecurityContext{RunAsNonRoot: ptr.To(true)}, true},
		"a user":                          {false, &workloadv1alpha1.SecurityContext{RunAsUser: ptr.To[int64](1000)}, true},
		"root":                            {false, &workloadv1alpha1.SecurityContext{RunAsUser: new(int64)}, false},
		"root against the level":          {true, &workloadv1alpha1.SecurityContext{RunAsUser: new(int64)}, true},
		"capabilities of the user's wish": {false, &workloadv1alpha1.SecurityContext{Capabilities: &workloadv1alpha1.Capabilities{Drop: []string{"ALL"}}}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			desired := workload.Profiled(workload.Named{Name: "web"}, 2, test.given, test.enforced, func() *corev1ac.PodSpecApplyConfiguration {
				return workload.Pod(0, workload.Container("web", "nginx"))
			})
			owner := &metav1.ObjectMeta{Name: "web", Namespace: "ns"}
			rendered, err := child.Render(owner, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "WebApp"}, desired)
			expect.NoError(t, err)
			var deployment appsv1.Deployment
			expect.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(rendered[0].Object.Object, &deployment))

			pod := deployment.Spec.Template.Spec
			security := pod.Containers[0].SecurityContext
			expect.Equal(t, "replicas", ptr.To[int32](2), deployment.Spec.Replicas)
			expect.Equal(t, "runAsNonRoot of the pod", test.restricted, ptr.Deref(pod.SecurityContext.RunAsNonRoot, false))
			drops := test.restricted || test.given != nil && test.given.Capabilities != nil
			expect.Equal(t, "drops capabilities", drops, security.Capabilities != nil)
			expect.Equal(t, "privilege escalation", ptr.To(false), security.AllowPrivilegeEscalation)
			expect.Equal(t, "seccomp profile", corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
			expect.Equal(t, "token", ptr.To(false), pod.AutomountServiceAccountToken)
		})
	}
}
