// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/example/demoapp-controller/cmd/demoapp-controller/app"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
)

// variants are values whose objects must fit together.
var variants = []string{
	"{}",
	"{replicaCount: 1, leaderElection: {enabled: false}, shutdownTimeoutSeconds: 90}",
	"{leaderElection: {leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 3s}, logging: {format: text, verbosity: 3}}",
	"{watchNamespaces: [team-a, team-b], kinds: [website, postgresql], controllers: ['*', -website], auditNamespace: records}",
	"{rbac: {impersonate: [deployer]}, kinds: [memcached], watches: [" + entry + "]}",
	"{kinds: [webapp], webhook: {enabled: true, approvedRegistries: [docker.io/library]}, metrics: {enabled: false}}",
	admission,
	monitored,
	scraped,
	"{metrics: {secure: true, certSecret: tls}, serviceMonitor: {enabled: true}}",
}

// TestFlags asserts that the operator accepts the flags of the Deployment.
func TestFlags(t *testing.T) {
	for _, text := range variants {
		t.Run(text, func(t *testing.T) {
			container := convert[appsv1.Deployment](t, find(t, renderChart(t, parse[values](t, text)), "Deployment", releaseName)).
				Spec.Template.Spec.Containers[0]
			options, flags := app.NewOptions(), pflag.NewFlagSet("operator", pflag.ContinueOnError)
			options.AddFlags(flags)

			if err := flags.Parse(container.Args); err != nil {
				t.Fatal(err)
			}
			if err := options.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestObjectsFitTogether asserts that selectors match the pods, that bindings bind roles of the
// release to its ServiceAccount, and that all namespaced objects are in the right namespaces, for a
// release of any name.
func TestObjectsFitTogether(t *testing.T) {
	for _, text := range variants {
		t.Run(text, func(t *testing.T) {
			given := parse[values](t, text)
			release, err := renderRelease(t, "blue", "ops", given)
			if err != nil {
				t.Fatal(err)
			}
			objects := decode(t, release.Manifest)
			deployment := convert[appsv1.Deployment](t, find(t, objects, "Deployment", "blue-demoapp-controller"))

			for _, o := range objects {
				checkSelector(t, o, deployment.Spec.Template.Labels)
				checkBinding(t, o, objects, deployment.Spec.Template.Spec.ServiceAccountName)
				checkNamespace(t, o, given)
			}
			if strings.Contains(release.Manifest, namespace) {
				t.Errorf("an object names the namespace %s", namespace)
			}
		})
	}
}

// checkSelector asserts that an object selects exactly the pods, if it selects pods.
func checkSelector(t *testing.T, o *object, pods map[string]string) {
	t.Helper()
	var selector *metav1.LabelSelector
	switch o.GetKind() {
	case "Deployment":
		selector = convert[appsv1.Deployment](t, o).Spec.Selector
	case "Service":
		selector = &metav1.LabelSelector{MatchLabels: convert[corev1.Service](t, o).Spec.Selector}
	case "PodDisruptionBudget":
		selector = convert[policyv1.PodDisruptionBudget](t, o).Spec.Selector
	case "NetworkPolicy":
		selector = &convert[networkingv1.NetworkPolicy](t, o).Spec.PodSelector
	default:
		return
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	if !parsed.Matches(labels.Set(pods)) || selector.MatchLabels["app.kubernetes.io/instance"] != "blue" {
		t.Errorf("%s selects %s", id(o), parsed)
	}
}

// checkBinding asserts that a binding names a role of the release and the ServiceAccount.
func checkBinding(t *testing.T, o *object, objects []*object, account string) {
	t.Helper()
	var role rbacv1.RoleRef
	var subjects []rbacv1.Subject
	switch o.GetKind() {
	case "ClusterRoleBinding":
		binding := convert[rbacv1.ClusterRoleBinding](t, o)
		role, subjects = binding.RoleRef, binding.Subjects
	case "RoleBinding":
		binding := convert[rbacv1.RoleBinding](t, o)
		role, subjects = binding.RoleRef, binding.Subjects
	default:
		return
	}
	if !slices.ContainsFunc(objects, func(other *object) bool {
		return other.GetKind() == role.Kind && other.GetName() == role.Name && other.GetNamespace() == o.GetNamespace()
	}) {
		t.Errorf("%s binds %s %s, which is not rendered", id(o), role.Kind, role.Name)
	}
	if diff := cmp.Diff([]rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: "ops"}}, subjects); diff != "" {
		t.Errorf("%s binds others:\n%s", id(o), diff)
	}
}

// checkNamespace asserts that an object is in the namespace of the release, or in a namespace of
// its permissions.
func checkNamespace(t *testing.T, o *object, given values) {
	t.Helper()
	allowed := []string{"", "ops"}
	if watched, ok := given["watchNamespaces"].([]any); ok && strings.HasPrefix(o.GetKind(), "Role") {
		for _, name := range watched {
			allowed = append(allowed, name.(string)) //nolint:forcetypeassert // The schema ensures that names are strings.
		}
		allowed = append(allowed, given["auditNamespace"].(string)) //nolint:forcetypeassert // So here.
	}
	if !slices.Contains(allowed, o.GetNamespace()) {
		t.Errorf("%s is not in one of the namespaces %v", id(o), allowed)
	}
}

// TestLeaseOfRelease asserts that two releases have leases of their own, and the permission for
// these only.
func TestLeaseOfRelease(t *testing.T) {
	release, err := renderRelease(t, "blue", "ops", nil)
	if err != nil {
		t.Fatal(err)
	}
	objects := decode(t, release.Manifest)

	args := convert[appsv1.Deployment](t, find(t, objects, "Deployment", "blue-demoapp-controller")).Spec.Template.Spec.Containers[0].Args
	role := convert[rbacv1.Role](t, find(t, objects, "Role", "blue-demoapp-controller-leader-election"))

	if !slices.Contains(args, "--leader-elect-resource-name=blue-demoapp-controller") {
		t.Errorf("the flags %v do not name the lease", args)
	}
	var names []string
	for _, rule := range role.Rules {
		names = append(names, rule.ResourceNames...)
	}
	if diff := cmp.Diff([]string{"blue-demoapp-controller"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestNamespacedPermissions asserts that an operator with watchNamespaces has Roles in these
// namespaces and in the namespace of the audit records, and no ClusterRole.
func TestNamespacedPermissions(t *testing.T) {
	objects := renderChart(t, values{
		"watchNamespaces": []any{"team-a", "team-b"}, "kinds": []any{"website"}, "auditNamespace": "records",
	})

	var bindings []string
	for _, o := range objects {
		if strings.HasSuffix(o.GetKind(), "RoleBinding") {
			bindings = append(bindings, id(o))
		}
	}

	want := []string{
		"RoleBinding/demoapp-system/demoapp-controller-leader-election",
		"RoleBinding/records/demoapp-controller-audit",
		"RoleBinding/team-a/demoapp-controller", "RoleBinding/team-a/demoapp-controller-website",
		"RoleBinding/team-b/demoapp-controller", "RoleBinding/team-b/demoapp-controller-website",
	}
	if slices.Sort(bindings); !slices.Equal(want, bindings) {
		t.Error(cmp.Diff(want, bindings))
	}
}

// TestWatches asserts that the ConfigMap is a valid watches file with the entries of the value, and
// that the pods mount it as a directory, which the kubelet updates.
func TestWatches(t *testing.T) {
	objects := renderChart(t, parse[values](t, "{watches: ["+entry+"]}"))
	config := convert[corev1.ConfigMap](t, find(t, objects, "ConfigMap", releaseName+"-watches"))
	pod := convert[appsv1.Deployment](t, find(t, objects, "Deployment", releaseName)).Spec.Template.Spec

	loaded, err := file.Parse("watches.yaml", []byte(config.Data["watches.yaml"]), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded) != 1 || loaded[0].GroupVersionKind.Kind != "Memcached" {
		t.Errorf("the file has the entries %+v", loaded)
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		if mount.SubPath != "" {
			t.Errorf("the mount %s has a subPath, so changes do not arrive", mount.Name)
		}
	}
}

// TestWebhookConfigurations asserts that the chart has the webhooks of
// artifacts/kinds/webapp/admission, and that cert-manager replaces the operator's own CA.
func TestWebhookConfigurations(t *testing.T) {
	content, err := os.ReadFile("../../artifacts/kinds/webapp/admission/webhook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	source := contents(t, decode(t, string(content)))

	own := contents(t, renderChart(t, parse[values](t, "{kinds: [webapp], webhook: {enabled: true}}")))
	issued := renderChart(t, parse[values](t, admission))

	for key, want := range source {
		if diff := cmp.Diff(want, own[key]); diff != "" {
			t.Errorf("%s differs from webhook.yaml:\n%s", key, diff)
		}
	}
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		annotation := find(t, issued, kind, "webapp-admission").GetAnnotations()["cert-manager.io/inject-ca-from"]
		if annotation != "demoapp-system/demoapp-webhook" {
			t.Errorf("%s: cert-manager injects the CA of %q", kind, annotation)
		}
	}
	secret, _, err := unstructured.NestedString(find(t, issued, "Certificate", "demoapp-webhook").Object, "spec", "secretName")
	if err != nil {
		t.Fatal(err)
	}
	volumes := convert[appsv1.Deployment](t, find(t, issued, "Deployment", releaseName)).Spec.Template.Spec.Volumes
	if len(volumes) != 1 || volumes[0].Secret == nil || volumes[0].Secret.SecretName != secret {
		t.Errorf("the pods do not mount the Secret %s: %v", secret, volumes)
	}
}

// TestMonitoring asserts that the chart has the alerts of artifacts/monitoring, and that the
// ServiceMonitor selects the Service.
func TestMonitoring(t *testing.T) {
	content, err := os.ReadFile("../../artifacts/monitoring/prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	source := decode(t, string(content))[0]

	objects := renderChart(t, parse[values](t, monitored))

	if diff := cmp.Diff(source.Object["spec"], find(t, objects, "PrometheusRule", releaseName).Object["spec"]); diff != "" {
		t.Error(diff)
	}
	type monitorSpec struct {
		Spec struct {
			JobLabel  string               `json:"jobLabel"`
			Selector  metav1.LabelSelector `json:"selector"`
			Endpoints []struct {
				Port string `json:"port"`
			} `json:"endpoints"`
		} `json:"spec"`
	}
	monitor := convert[monitorSpec](t, find(t, objects, "ServiceMonitor", releaseName)).Spec
	service := convert[corev1.Service](t, find(t, objects, "Service", releaseName+"-metrics"))
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Selector)
	if err != nil {
		t.Fatal(err)
	}
	if !selector.Matches(labels.Set(service.Labels)) || monitor.Endpoints[0].Port != service.Spec.Ports[0].Name {
		t.Errorf("the ServiceMonitor %+v does not select the Service", monitor)
	}
	if secure := manifest(t, values{"metrics": values{"secure": true}, "serviceMonitor": values{"enabled": true}}); !strings.Contains(secure, "scheme: https") {
		t.Error("Prometheus scrapes secure metrics without TLS")
	}
	if job := service.Labels[monitor.JobLabel]; job != "demoapp-controller" {
		t.Errorf("the alerts are about the job demoapp-controller, which is %q", job)
	}
}

// TestScrapeIsVerified asserts that Prometheus verifies the certificate of metrics.certSecret,
// which the pods mount, before it sends its token.
func TestScrapeIsVerified(t *testing.T) {
	objects := renderChart(t, parse[values](t, "{metrics: {secure: true, certSecret: tls}, serviceMonitor: {enabled: true}}"))
	service := find(t, objects, "Service", releaseName+"-metrics")

	endpoints, _, err := unstructured.NestedSlice(find(t, objects, "ServiceMonitor", releaseName).Object, "spec", "endpoints")
	if err != nil {
		t.Fatal(err)
	}
	pod := convert[appsv1.Deployment](t, find(t, objects, "Deployment", releaseName)).Spec.Template.Spec

	want := map[string]any{
		"serverName": service.GetName() + "." + namespace + ".svc",
		"ca":         map[string]any{"secret": map[string]any{"name": "tls", "key": "ca.crt"}},
	}
	endpoint, _ := endpoints[0].(map[string]any)
	if diff := cmp.Diff(want, endpoint["tlsConfig"]); diff != "" {
		t.Error(diff)
	}
	if len(pod.Volumes) != 1 || pod.Volumes[0].Secret == nil || pod.Volumes[0].Secret.SecretName != "tls" {
		t.Errorf("the pods have the volumes %v", pod.Volumes)
	}
	if mounts := pod.Containers[0].VolumeMounts; len(mounts) != 1 || mounts[0].MountPath != "/etc/demoapp-controller/metrics" {
		t.Errorf("the container has the mounts %v", mounts)
	}
}

// TestTwoReleases asserts that a second release without roles for users shares no cluster-scoped
// object with the first.
func TestTwoReleases(t *testing.T) {
	objects := func(name string, given values) map[string]map[string]any {
		release, err := renderRelease(t, name, name, given)
		if err != nil {
			t.Fatal(err)
		}
		return contents(t, decode(t, release.Manifest))
	}
	first := objects("blue", parse[values](t, "{metrics: {secure: true}}"))

	second := objects("green", parse[values](t, "{metrics: {secure: true}, rbac: {userRoles: false}, crds: {install: false}}"))

	for key := range second {
		// On a cluster, the second release finds the namespace of the first, and leaves it out.
		if first[key] != nil && key != "Namespace//"+auditNamespace {
			t.Errorf("both releases have %s", key)
		}
	}
}

// TestDashboards asserts that Grafana gets the dashboards of artifacts/monitoring.
func TestDashboards(t *testing.T) {
	objects := renderChart(t, parse[values](t, monitored))
	for _, name := range []string{"operator", "resources"} {
		want, err := os.ReadFile("../../artifacts/monitoring/dashboards/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}

		config := convert[corev1.ConfigMap](t, find(t, objects, "ConfigMap", releaseName+"-dashboard-"+name))

		if got := config.Data[name+".json"]; strings.TrimSpace(got) != strings.TrimSpace(string(want)) {
			t.Errorf("the dashboard %s differs from its file", name)
		}
		if config.Labels["grafana_dashboard"] != "1" {
			t.Errorf("the sidecar of Grafana does not find the dashboard %s by the labels %v", name, config.Labels)
		}
	}
}

// maxSecret is the size of the data of a Secret that the API server accepts.
const maxSecret = 1 << 20

// TestReleaseFitsIntoASecret asserts that Helm can store the release with everything on, with room
// for growth.
func TestReleaseFitsIntoASecret(t *testing.T) {
	everything := parse[values](t, monitored)
	everything["kinds"] = []any{
		"appconfig", "appstack", "backup", "ecommerceplatform", "memcached", "memcachedbackup", "postgresql", "webapp", "website",
	}
	everything["webhook"] = values{"enabled": true}
	release, err := renderRelease(t, releaseName, namespace, everything)
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(release)
	if err != nil {
		t.Fatal(err)
	}
	var record bytes.Buffer
	compressor := gzip.NewWriter(&record)

	_, err = compressor.Write(content)

	if err := errors.Join(err, compressor.Close()); err != nil {
		t.Fatal(err)
	}
	if size := base64.StdEncoding.EncodedLen(record.Len()); size > maxSecret/2 {
		t.Errorf("the record of the release has %d bytes, more than half of the limit", size)
	} else {
		t.Logf("the record of the release has %d bytes", size)
	}
}

// TestPodsMeetTheRestrictedProfile makes the API server's checks at an installation, for all
// variants.
func TestPodsMeetTheRestrictedProfile(t *testing.T) {
	for _, text := range variants {
		t.Run(text, func(t *testing.T) {
			pod := convert[appsv1.Deployment](t, find(t, renderChart(t, parse[values](t, text)), "Deployment", releaseName)).Spec.Template.Spec

			security := pod.Containers[0].SecurityContext
			switch {
			case !*pod.SecurityContext.RunAsNonRoot, pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
				t.Errorf("the pod has the security context %v", pod.SecurityContext)
			case *security.AllowPrivilegeEscalation, !*security.ReadOnlyRootFilesystem, security.Capabilities.Drop[0] != "ALL":
				t.Errorf("the container has the security context %v", security)
			}
			options, flags := app.NewOptions(), pflag.NewFlagSet("operator", pflag.ContinueOnError)
			options.AddFlags(flags)
			if err := flags.Parse(pod.Containers[0].Args); err != nil {
				t.Fatal(err)
			}
			if grace := float64(*pod.TerminationGracePeriodSeconds); grace <= options.ShutdownTimeout.Seconds() {
				t.Errorf("the grace period of %v s ends before --shutdown-timeout=%s", grace, options.ShutdownTimeout)
			}
		})
	}
}

// TestNotes asserts that the notes warn of an uninstall that deletes all custom resources.
func TestNotes(t *testing.T) {
	for _, keep := range []bool{true, false} {
		release, err := renderRelease(t, releaseName, namespace, values{"crds": values{"keep": keep}})
		if err != nil {
			t.Fatal(err)
		}
		if warns := strings.Contains(release.Info.Notes, "WARNING: crds.keep is false"); warns == keep {
			t.Errorf("crds.keep=%t: the notes are\n%s", keep, release.Info.Notes)
		}
	}
}

// TestNotesNeedNoRepository asserts that the notes name no files, which a user of the packaged
// chart does not have.
func TestNotesNeedNoRepository(t *testing.T) {
	for _, namespaces := range [][]any{nil, {"team-a", "team-b"}} {
		release, err := renderRelease(t, releaseName, namespace, values{"watchNamespaces": namespaces})
		if err != nil {
			t.Fatal(err)
		}
		notes := release.Info.Notes
		watched := strings.Contains(notes, "kubectl wait --namespace team-a demoapp/demoapp-sample")
		if strings.Contains(notes, "artifacts/") || watched != (namespaces != nil) {
			t.Errorf("watchNamespaces %v: the notes are\n%s", namespaces, notes)
		}
	}
}

// convert decodes an object as a type.
func convert[T any](t testing.TB, o *object) *T {
	t.Helper()
	decoded := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, decoded); err != nil {
		t.Fatalf("%s: %v", id(o), err)
	}
	return decoded
}
