// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// memcachedChart is the folder of the chart of the hybrid example.
var memcachedChart = filepath.Join("..", "..", "examples", "hybrid", "charts", "memcached")

// memcachedOptions returns values that set every option of the chart to another value than its
// default.
func memcachedOptions(t *testing.T) string {
	t.Helper()
	return string(memcachedFile(t, "ci/options-values.yaml"))
}

// renderedMemcached installs the chart under a release name. It returns the release record and the
// objects by kind.
func renderedMemcached(t *testing.T, name, values string) (rls *releasev1.Release, objects map[string]*unstructured.Unstructured, err error) {
	t.Helper()
	chart, err := chart.LoadDir(memcachedChart)
	if err != nil {
		t.Fatal(err)
	}
	desired := Release{Namespace: "default", Name: name, Chart: chart}
	if err := yaml.UnmarshalStrict([]byte(values), &desired.Values); err != nil {
		t.Fatal(err)
	}
	bubble(t, func(_ *testing.T, f *fixture) {
		f.Serve(corev1.SchemeGroupVersion.WithResource("serviceaccounts"), "ServiceAccount", true)
		f.Serve(autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers"), "HorizontalPodAutoscaler", true)
		f.Serve(networkingv1.SchemeGroupVersion.WithResource("ingresses"), "Ingress", true)
		f.restart() // The engine runs discovery at its start.
		if _, err = f.reconcile(desired); err != nil {
			return
		}
		rls, objects = f.record(desired), map[string]*unstructured.Unstructured{}
		for _, object := range f.Names() {
			kind, key, _ := strings.Cut(object, " ")
			objects[kind] = f.Object(kind, key)
		}
	})
	return rls, objects, err
}

func mustRenderMemcached(t *testing.T, name, values string) (*releasev1.Release, map[string]*unstructured.Unstructured) {
	t.Helper()
	rls, objects, err := renderedMemcached(t, name, values)
	if err != nil {
		t.Fatal(err)
	}
	return rls, objects
}

func memcachedFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(memcachedChart, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestMemcachedDefaults(t *testing.T) {
	rls, objects := mustRenderMemcached(t, "cache", "{}")

	if diff := cmp.Diff([]string{"Deployment", "Service", "ServiceAccount"}, slices.Sorted(maps.Keys(objects))); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	for kind, object := range objects {
		if object.GetName() != "cache-memcached" || object.GetNamespace() != "default" {
			t.Errorf("%s is %s/%s", kind, object.GetNamespace(), object.GetName())
		}
		if diff := cmp.Diff(map[string]string{
			"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": "cache",
			"app.kubernetes.io/version": "1.6.32-alpine", "app.kubernetes.io/managed-by": "Helm",
			"helm.sh/chart": "memcached-0.1.0",
		}, object.GetLabels()); diff != "" {
			t.Errorf("labels of the %s (-want +got):\n%s", kind, diff)
		}
	}
	deployment, service := typed[appsv1.Deployment](t, objects["Deployment"]), typed[corev1.Service](t, objects["Service"])
	account := typed[corev1.ServiceAccount](t, objects["ServiceAccount"])
	pods := map[string]string{"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": "cache"}
	pod := deployment.Spec.Template.Spec
	for what, pair := range map[string][2]any{
		"selector of the Deployment": {pods, deployment.Spec.Selector.MatchLabels},
		"labels of the pods":         {pods, deployment.Spec.Template.Labels},
		"selector of the Service":    {pods, service.Spec.Selector},
		"replicas":                   {ptr.To(int32(3)), deployment.Spec.Replicas},
		"image":                      {"memcached:1.6.32-alpine", pod.Containers[0].Image},
		"account":                    {"cache-memcached", pod.ServiceAccountName},
		"token of the pods":          {ptr.To(false), pod.AutomountServiceAccountToken},
		"token of the account":       {ptr.To(false), account.AutomountServiceAccountToken},
		"port":                       {int32(11211), service.Spec.Ports[0].Port},
		"target port":                {intstr.FromString("memcached"), service.Spec.Ports[0].TargetPort},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if !strings.Contains(rls.Info.Notes, "cache-memcached.default.svc:11211") || !strings.Contains(rls.Info.Notes, "port-forward") {
		t.Errorf("notes are %q", rls.Info.Notes)
	}
}

// TestMemcachedPodsMeetRestrictedProfile holds the pods of the Deployment and of the test to the
// restricted profile.
func TestMemcachedPodsMeetRestrictedProfile(t *testing.T) {
	rls, objects := mustRenderMemcached(t, "cache", "{}")
	if len(rls.Hooks) != 1 {
		t.Fatalf("hooks are %v", rls.Hooks)
	}
	hook := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(rls.Hooks[0].Manifest), &hook.Object); err != nil {
		t.Fatal(err)
	}
	service := typed[corev1.Service](t, objects["Service"])
	test := typed[corev1.Pod](t, hook)

	if rls.Hooks[0].Events[0] != releasev1.HookTest || test.Name != "cache-memcached-test-connection" {
		t.Errorf("hook is %s, for %v", test.Name, rls.Hooks[0].Events)
	}
	if test.Labels["app.kubernetes.io/name"] == service.Spec.Selector["app.kubernetes.io/name"] {
		t.Error("the Service selects the pod of the test")
	}
	for what, pod := range map[string]corev1.PodSpec{
		"Deployment": typed[appsv1.Deployment](t, objects["Deployment"]).Spec.Template.Spec, "test": test.Spec,
	} {
		security := ptr.Deref(pod.SecurityContext, corev1.PodSecurityContext{})
		if !ptr.Deref(security.RunAsNonRoot, false) || ptr.Deref(security.RunAsUser, 0) == 0 ||
			security.SeccompProfile == nil || security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: security context of the pod is %+v", what, security)
		}
		want := &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
		if diff := cmp.Diff(want, pod.Containers[0].SecurityContext); diff != "" {
			t.Errorf("%s: security context of the container (-want +got):\n%s", what, diff)
		}
		if len(pod.Containers[0].Resources.Requests) == 0 || len(pod.Containers[0].Resources.Limits) == 0 {
			t.Errorf("%s: resources are %+v", what, pod.Containers[0].Resources)
		}
	}
}

func TestMemcachedOptions(t *testing.T) {
	rls, objects := mustRenderMemcached(t, "cache", memcachedOptions(t))

	deployment := typed[appsv1.Deployment](t, objects["Deployment"])
	if deployment.Name != "front" || deployment.Spec.Replicas != nil || deployment.Spec.Template.Annotations["pod"] != "yes\nno" ||
		deployment.Labels["app.kubernetes.io/name"] != "store" {
		t.Errorf("Deployment is %+v", deployment)
	}
	pod := deployment.Spec.Template.Spec
	affinity := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
		}}},
	}}
	for what, pair := range map[string][2]any{
		"account":            {"runner", pod.ServiceAccountName},
		"token":              {ptr.To(true), pod.AutomountServiceAccountToken},
		"image":              {"registry.example.com/memcached:2", pod.Containers[0].Image},
		"pull policy":        {corev1.PullAlways, pod.Containers[0].ImagePullPolicy},
		"pull secrets":       {[]corev1.LocalObjectReference{{Name: "pull"}}, pod.ImagePullSecrets},
		"fsGroup":            {ptr.To(int64(2000)), pod.SecurityContext.FSGroup},
		"privileged":         {ptr.To(false), pod.Containers[0].SecurityContext.Privileged},
		"requested CPU":      {resource.MustParse("250m"), pod.Containers[0].Resources.Requests[corev1.ResourceCPU]},
		"limit of memory":    {resource.MustParse("1Gi"), pod.Containers[0].Resources.Limits[corev1.ResourceMemory]},
		"node selector":      {map[string]string{"disk": "ssd"}, pod.NodeSelector},
		"tolerations":        {[]corev1.Toleration{{Key: "cache", Operator: corev1.TolerationOpExists}}, pod.Tolerations},
		"affinity":           {affinity, pod.Affinity},
		"port of the pods":   {int32(11211), pod.Containers[0].Ports[0].ContainerPort},
		"security context":   {ptr.To(true), pod.SecurityContext.RunAsNonRoot},
		"kinds":              {[]string{"Deployment", "HorizontalPodAutoscaler", "Ingress", "Service", "ServiceAccount"}, slices.Sorted(maps.Keys(objects))},
		"notes have a host":  {true, strings.Contains(rls.Info.Notes, "a.example.com")},
		"hooks of the chart": {1, len(rls.Hooks)},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	service := typed[corev1.Service](t, objects["Service"])
	if service.Name != "front" || service.Spec.Type != corev1.ServiceTypeNodePort || service.Spec.Ports[0].Port != 80 {
		t.Errorf("Service is %+v", service)
	}
	account := typed[corev1.ServiceAccount](t, objects["ServiceAccount"])
	if account.Name != "runner" || !ptr.Deref(account.AutomountServiceAccountToken, false) || account.Annotations["account"] != "note" {
		t.Errorf("ServiceAccount is %+v", account)
	}
}

func TestMemcachedAutoscaling(t *testing.T) {
	_, objects := mustRenderMemcached(t, "cache", memcachedOptions(t))

	got := typed[autoscalingv2.HorizontalPodAutoscaler](t, objects["HorizontalPodAutoscaler"])

	metric := func(name corev1.ResourceName, percent int32) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: name, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
		}}
	}
	want := autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "front"},
		MinReplicas:    ptr.To(int32(2)), MaxReplicas: 7,
		Metrics: []autoscalingv2.MetricSpec{metric(corev1.ResourceCPU, 60), metric(corev1.ResourceMemory, 70)},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("HorizontalPodAutoscaler (-want +got):\n%s", diff)
	}
}

func TestMemcachedIngress(t *testing.T) {
	_, objects := mustRenderMemcached(t, "cache", memcachedOptions(t))

	got := typed[networkingv1.Ingress](t, objects["Ingress"])

	path := func(path string, pathType networkingv1.PathType) networkingv1.HTTPIngressPath {
		return networkingv1.HTTPIngressPath{Path: path, PathType: &pathType, Backend: networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "front", Port: networkingv1.ServiceBackendPort{Name: "memcached"}},
		}}
	}
	want := networkingv1.IngressSpec{
		IngressClassName: ptr.To("nginx"),
		TLS:              []networkingv1.IngressTLS{{Hosts: []string{"a.example.com"}, SecretName: "certificate"}},
		Rules: []networkingv1.IngressRule{{Host: "a.example.com", IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{
				path("/a", networkingv1.PathTypeExact), path("/b", networkingv1.PathTypePrefix),
			}},
		}}},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" || got.Annotations["ingress"] != "note" {
		t.Errorf("annotations %v, Ingress (-want +got):\n%s", got.Annotations, diff)
	}
}

func TestMemcachedNames(t *testing.T) {
	long := strings.Repeat("a", 53)
	tests := []struct {
		name, release, values string
		// objects, account and notes are the names of the objects, of the ServiceAccount, and a
		// part of the notes.
		objects, account, notes string
	}{
		{"release named after the chart", "memcached-sample", "{}", "memcached-sample", "memcached-sample", "port-forward"},
		{"nameOverride", "cache", "nameOverride: store", "cache-store", "cache-store", "port-forward"},
		{"longest names", long, "nameOverride: " + strings.Repeat("b", 63), long + "-bbbbbbbbb", long + "-bbbbbbbbb", "port-forward"},
		{"existing account", "cache", "serviceAccount: {create: false, name: theirs}", "cache-memcached", "theirs", "port-forward"},
		{"no account", "cache", "serviceAccount: {create: false}", "cache-memcached", "default", "port-forward"},
		{"load balancer", "cache", "service: {type: LoadBalancer}", "cache-memcached", "cache-memcached", "loadBalancer"},
		{"node port", "cache", "service: {type: NodePort}", "cache-memcached", "cache-memcached", "nodePort"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rls, objects := mustRenderMemcached(t, test.release, test.values)

			deployment := typed[appsv1.Deployment](t, objects["Deployment"])
			if got := deployment.Spec.Template.Spec.ServiceAccountName; got != test.account || deployment.Name != test.objects {
				t.Errorf("Deployment %s has account %s", deployment.Name, got)
			}
			if created := objects["ServiceAccount"] != nil; created != (test.account == test.objects) {
				t.Errorf("ServiceAccount is created: %t", created)
			}
			if !strings.Contains(rls.Info.Notes, test.notes) {
				t.Errorf("notes are %q", rls.Info.Notes)
			}
		})
	}
}

func TestMemcachedBadValues(t *testing.T) {
	tests := map[string]string{
		"replicas below":        "replicaCount: -1",
		"replicas as text":      "replicaCount: two",
		"no repository":         `image: {repository: ""}`,
		"unknown pull policy":   "image: {pullPolicy: Sometimes}",
		"unknown option":        "replicas: 3",
		"unknown, deeper":       "service: {targetPort: 1}",
		"port 0":                "service: {port: 0}",
		"unknown Service type":  "service: {type: ExternalName}",
		"no service":            "service: null",
		"Ingress without hosts": "ingress: {enabled: true, hosts: []}",
		"unknown path type":     "ingress: {hosts: [{host: a, paths: [{path: /, pathType: Any}]}]}",
		"no metric":             "autoscaling: {enabled: true, targetCPUUtilizationPercentage: null}",
		"no maximum of pods":    "autoscaling: {enabled: true, maxReplicas: null}",
		"secret without name":   "imagePullSecrets: [{}]",
		"annotation is a map":   "podAnnotations: {a: {b: c}}",
	}
	for name, values := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := renderedMemcached(t, "cache", values)

			if got := wantError[*RenderError](t, err); got.Chart != "memcached" || !IsTerminal(err) {
				t.Errorf("error is %v of chart %q", err, got.Chart)
			}
		})
	}
}

// TestMemcachedOptionsAreComplete compares the options of values.yaml, of values.schema.json and of
// the tests.
func TestMemcachedOptionsAreComplete(t *testing.T) {
	var defaults, options map[string]any
	var schema struct {
		AdditionalProperties *bool
		Properties           map[string]json.RawMessage
	}
	if err := yaml.Unmarshal(memcachedFile(t, "values.yaml"), &defaults); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(memcachedFile(t, "values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(memcachedOptions(t)), &options); err != nil {
		t.Fatal(err)
	}

	want := slices.Sorted(maps.Keys(defaults))
	for what, got := range map[string][]string{
		"values.schema.json": slices.Sorted(maps.Keys(schema.Properties)), "the tests": slices.Sorted(maps.Keys(options)),
	} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("options of %s (-values.yaml +got):\n%s", what, diff)
		}
	}
	if ptr.Deref(schema.AdditionalProperties, true) {
		t.Error("the schema admits unknown values")
	}
}

// TestMemcachedUpstreamValues uses the values that the custom resource of the upstream tutorial
// has.
func TestMemcachedUpstreamValues(t *testing.T) {
	_, objects := mustRenderMemcached(t, "memcached-sample", `
affinity: {}
autoscaling: {enabled: false, maxReplicas: 100, minReplicas: 1, targetCPUUtilizationPercentage: 80}
fullnameOverride: ""
image: {pullPolicy: IfNotPresent, repository: memcached, tag: ""}
imagePullSecrets: []
ingress:
  annotations: {}
  className: ""
  enabled: false
  hosts: [{host: chart-example.local, paths: [{path: /, pathType: ImplementationSpecific}]}]
  tls: []
nameOverride: ""
nodeSelector: {}
podAnnotations: {}
podSecurityContext: {}
replicaCount: 3
resources: {}
securityContext: {}
service: {port: 80, type: ClusterIP}
serviceAccount: {annotations: {}, create: true, name: ""}
tolerations: []
`)

	if replicas := typed[appsv1.Deployment](t, objects["Deployment"]).Spec.Replicas; ptr.Deref(replicas, 0) != 3 {
		t.Errorf("replicas are %v", replicas)
	}
}
