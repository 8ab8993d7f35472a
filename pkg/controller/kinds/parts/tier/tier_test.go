// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package tier_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/utils/ptr"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	children "github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/tier"
	databasev1ac "github.com/example/demoapp-controller/pkg/generated/applyconfiguration/database/v1"
	"github.com/example/demoapp-controller/test/expect"
)

// newApplication returns an application with all components.
func newApplication(change ...func(*tier.Application)) tier.Application {
	app := tier.Application{
		Namespace: "ns", Name: "shop", Restricted: true,
		Labels: func(component string) map[string]string {
			return map[string]string{"app": "shop", "component": component}
		},
		Database: tier.Server{Type: backupv1.SourcePostgreSQL, Version: "17", Storage: "10Gi", Replicas: 3},
		Cache:    &tier.Workload{Image: "cache:1", Replicas: 1, Port: tier.CachePort},
		Backend:  tier.Workload{Image: "backend:1", Replicas: 2, Port: tier.HTTPPort},
		Frontend: tier.Workload{Image: "frontend:1", Replicas: 1, Port: 80},
	}
	for _, c := range change {
		c(&app)
	}
	return app
}

func hardened(app *tier.Application) { app.Hardened = true }

func monitored(app *tier.Application) { app.Monitored = true }

func mySQL(app *tier.Application) {
	app.Database.Type, app.Database.Version = backupv1.SourceMySQL, "8.4"
}

func withBackups(app *tier.Application) {
	app.Database.Backups = &tier.Backups{Schedule: "@daily", Retention: "30d", HasDestination: true, Destination: &backupv1.Destination{
		Type: "s3", Bucket: "dumps", CredentialsSecret: "bucket", Prefix: "shop",
	}}
}

func withoutCache(app *tier.Application) { app.Cache = nil }

// childNames returns the children of components, as kind/name.
func childNames(components ...component.Component) []string {
	var names []string
	for _, c := range components {
		for _, child := range c.Children {
			kind, name := child.GetKind(), child.GetName()
			if kind == nil || name == nil {
				encoded, err := json.Marshal(child)
				object := unstructured.Unstructured{}
				if err == nil && object.UnmarshalJSON(encoded) == nil {
					names = append(names, object.GetKind()+"/"+object.GetName())
				}
				continue
			}
			names = append(names, *kind+"/"+*name)
		}
	}
	return names
}

// child returns the child of a component with type T, or nil.
func child[T any](c component.Component) T {
	var none T
	for _, desired := range c.Children {
		if typed, ok := desired.(T); ok {
			return typed
		}
	}
	return none
}

func TestTiers(t *testing.T) {
	tests := map[string]struct {
		change []func(*tier.Application)
		want   []string
	}{
		"plain": {nil, []string{
			"PostgreSQL/shop-db", "Deployment/shop-cache", "Service/shop-cache", "Deployment/shop-backend", "Service/shop-backend",
			"Deployment/shop-frontend", "Service/shop-frontend",
		}},
		"hardened": {[]func(*tier.Application){hardened}, []string{
			"PostgreSQL/shop-db", "NetworkPolicy/shop-database",
			"Deployment/shop-cache", "Service/shop-cache", "NetworkPolicy/shop-cache",
			"Deployment/shop-backend", "Service/shop-backend", "PodDisruptionBudget/shop-backend", "NetworkPolicy/shop-backend",
			"Deployment/shop-frontend", "Service/shop-frontend", "NetworkPolicy/shop-frontend",
		}},
		"mysql without a cache": {[]func(*tier.Application){mySQL, withoutCache}, []string{
			"Service/shop-db-headless", "Service/shop-db", "StatefulSet/shop-db",
			"Deployment/shop-backend", "Service/shop-backend", "Deployment/shop-frontend", "Service/shop-frontend",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, childNames(newApplication(test.change...).Tiers()...)); diff != "" {
				t.Errorf("children (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPoliciesAllowPathsBetweenComponents lists the allowed incoming and outgoing connections of
// each component.
func TestPoliciesAllowPathsBetweenComponents(t *testing.T) {
	tests := map[string]struct {
		change []func(*tier.Application)
		want   map[string][]string
	}{
		"postgresql with monitoring and backups": {[]func(*tier.Application){hardened, monitored, withBackups}, map[string][]string{
			"database": {
				"from component=backend at 5432", "from database.example.com/postgresql=shop-db at 5432",
				"from backup.example.com/backup=shop-db-backup at 5432", "to anywhere at 53", "to database.example.com/postgresql=shop-db at 5432",
			},
			"cache": {"from component=backend at 6379", "to anywhere at 53"},
			"backend": {
				"from component=frontend at 8080", "from app.kubernetes.io/name=prometheus in kubernetes.io/metadata.name=monitoring at 8080",
				"to anywhere at 53", "to component=cache at 6379", "to database.example.com/postgresql=shop-db at 5432",
			},
			"frontend": {"from anywhere at 80", "to anywhere at 53", "to component=backend at 8080"},
		}},
		"postgresql": {[]func(*tier.Application){hardened}, map[string][]string{
			"database": {
				"from component=backend at 5432", "from database.example.com/postgresql=shop-db at 5432",
				"to anywhere at 53", "to database.example.com/postgresql=shop-db at 5432",
			},
			"cache": {"from component=backend at 6379", "to anywhere at 53"},
			"backend": {
				"from component=frontend at 8080", "to anywhere at 53", "to component=cache at 6379",
				"to database.example.com/postgresql=shop-db at 5432",
			},
			"frontend": {"from anywhere at 80", "to anywhere at 53", "to component=backend at 8080"},
		}},
		"mysql with backups, without a cache": {[]func(*tier.Application){hardened, mySQL, withBackups, withoutCache}, map[string][]string{
			"database": {
				"from component=backend at 3306", "from component=database at 3306", "from backup.example.com/backup=shop-db-backup at 3306",
				"to anywhere at 53", "to component=database at 3306",
			},
			"backend": {
				"from component=frontend at 8080", "to anywhere at 53", "to component=database at 3306",
			},
			"frontend": {"from anywhere at 80", "to anywhere at 53", "to component=backend at 8080"},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string][]string{}
			for _, c := range newApplication(test.change...).Tiers() {
				got[c.Name] = rules(child[*networkingv1ac.NetworkPolicyApplyConfiguration](c))
			}

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

// rules describes the rules of a NetworkPolicy.
func rules(policy *networkingv1ac.NetworkPolicyApplyConfiguration) []string {
	describe := func(direction string, peers []networkingv1ac.NetworkPolicyPeerApplyConfiguration, port string) string {
		if len(peers) == 0 {
			return direction + " anywhere at " + port
		}
		text := direction + " " + labels(peers[0].PodSelector.MatchLabels)
		if peers[0].NamespaceSelector != nil {
			text += " in " + labels(peers[0].NamespaceSelector.MatchLabels)
		}
		return text + " at " + port
	}
	var found []string
	for _, rule := range policy.Spec.Ingress {
		found = append(found, describe("from", rule.From, rule.Ports[0].Port.String()))
	}
	for _, rule := range policy.Spec.Egress {
		found = append(found, describe("to", rule.To, rule.Ports[0].Port.String()))
	}
	return found
}

func labels(selector map[string]string) string {
	var pairs []string
	for key, value := range selector {
		if key != "app" {
			pairs = append(pairs, key+"="+value)
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// TestPostgreSQLWithoutResourcesIsApplied: the API server takes a new empty list or object for
// null, and refuses null.
func TestPostgreSQLWithoutResourcesIsApplied(t *testing.T) {
	withoutResources := func(app *tier.Application) { app.Database.Resources = &workloadv1alpha1.Resources{} }
	for name, app := range map[string]tier.Application{"default": newApplication(), "empty": newApplication(withoutResources)} {
		t.Run(name, func(t *testing.T) {
			found := false
			for _, c := range app.Tiers() {
				database := child[*databasev1ac.PostgreSQLApplyConfiguration](c)
				if database == nil {
					continue
				}
				found = true
				applied, err := json.Marshal(database)
				expect.NoError(t, err)
				if strings.Contains(string(applied), "null") || strings.Contains(string(applied), "{}") {
					t.Errorf("the PostgreSQL has an empty field: %s", applied)
				}
			}
			if !found {
				t.Error("the application has no PostgreSQL")
			}
		})
	}
}

// TestNoPodIsBestEffort: pods of this QoS class are evicted first.
func TestNoPodIsBestEffort(t *testing.T) {
	for name, change := range map[string]func(*tier.Application){"postgresql": func(*tier.Application) {}, "mysql": mySQL} {
		databases := 0
		for _, c := range newApplication(change).Tiers() {
			if database := child[*databasev1ac.PostgreSQLApplyConfiguration](c); database != nil {
				databases++
				if resources := database.Spec.Resources; resources == nil || resources.Requests == nil || len(*resources.Requests) == 0 {
					t.Errorf("%s: the PostgreSQL has no requests", name)
				}
			}
			if deployment := child[*appsv1ac.DeploymentApplyConfiguration](c); deployment != nil {
				if resources := deployment.Spec.Template.Spec.Containers[0].Resources; resources == nil || resources.Requests == nil {
					t.Errorf("%s: the container of %s has no requests", name, c.Name)
				}
			}
			if set := child[*appsv1ac.StatefulSetApplyConfiguration](c); set != nil {
				databases++
				if resources := set.Spec.Template.Spec.Containers[0].Resources; resources == nil || resources.Requests == nil {
					t.Errorf("%s: the container of %s has no requests", name, c.Name)
				}
			}
		}
		expect.Equal(t, name+": databases", 1, databases)
	}
}

func TestHardenedPodsHaveLimitsAndSpread(t *testing.T) {
	for _, c := range newApplication(hardened).Tiers() {
		deployment := child[*appsv1ac.DeploymentApplyConfiguration](c)
		if deployment == nil {
			continue
		}
		pod := deployment.Spec.Template.Spec

		if pod.Containers[0].Resources == nil || pod.Containers[0].Resources.Limits == nil {
			t.Errorf("the container of %s has no limits", c.Name)
		}
		if len(pod.TopologySpreadConstraints) != 2 {
			t.Errorf("the pods of %s have the constraints %+v", c.Name, pod.TopologySpreadConstraints)
		}
	}
}

// TestStockImages: backend and frontend run the stock images of registries, which start as root, unless the
// namespace enforces the restricted profile or the application is hardened. The user of a cache is known.
func TestStockImages(t *testing.T) {
	unrestricted := func(app *tier.Application) { app.Restricted = false }
	tests := map[string]struct {
		change    []func(*tier.Application)
		mayBeRoot map[string]bool
		advice    string
	}{
		"no level": {
			[]func(*tier.Application){unrestricted},
			map[string]bool{"cache": false, "backend": true, "frontend": true},
			"check spec.frontend.image, which must exist, be allowed, and listen on port 80",
		},
		"the restricted level": {
			nil,
			map[string]bool{"cache": false, "backend": false, "frontend": false},
			"check spec.frontend.image, which must exist, be allowed, run as a user other than root, and listen on port 80",
		},
		"hardened": {
			[]func(*tier.Application){unrestricted, hardened},
			map[string]bool{"cache": false, "backend": false, "frontend": false},
			"check spec.frontend.image, which must exist, be allowed, run as a user other than root, and listen on port 80",
		},
		"a user": {
			[]func(*tier.Application){unrestricted, func(app *tier.Application) {
				app.Frontend.User = &workloadv1alpha1.UserContext{RunAsUser: ptr.To[int64](101)}
			}},
			map[string]bool{"cache": false, "backend": true, "frontend": false},
			"check spec.frontend.image, which must exist, be allowed, and listen on port 80",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			mayBeRoot, advice := map[string]bool{}, ""
			for _, c := range newApplication(test.change...).Tiers()[1:] {
				rendered, err := children.Render(&metav1.ObjectMeta{Name: "shop", Namespace: "ns"}, schema.GroupVersionKind{Kind: "AppStack"}, c.Children[0])
				expect.NoError(t, err)
				nonRoot, _, err := unstructured.NestedBool(rendered[0].Object.Object, "spec", "template", "spec", "securityContext", "runAsNonRoot")
				expect.NoError(t, err)
				mayBeRoot[c.Name], advice = !nonRoot, c.Advice(nil)
			}

			if diff := cmp.Diff(test.mayBeRoot, mayBeRoot); diff != "" {
				t.Errorf("components that may run as root (-want +got):\n%s", diff)
			}
			expect.Equal(t, "advice", test.advice, advice)
		})
	}
}

func TestMonitoring(t *testing.T) {
	got := newApplication().Monitoring()

	if diff := cmp.Diff([]string{"ServiceMonitor/shop", "ConfigMap/shop-dashboard"}, childNames(got)); diff != "" {
		t.Errorf("children (-want +got):\n%s", diff)
	}
	dashboard := child[*corev1ac.ConfigMapApplyConfiguration](got)
	if dashboard.Labels["grafana_dashboard"] != "1" {
		t.Errorf("labels of the dashboard are %v", dashboard.Labels)
	}
	content := struct {
		Title  string
		Panels []struct{ Targets []struct{ Expr string } }
	}{}
	if err := json.Unmarshal([]byte(dashboard.Data["shop.json"]), &content); err != nil {
		t.Fatal(err)
	}
	if content.Title != "ns/shop" || !strings.Contains(content.Panels[0].Targets[0].Expr, `namespace="ns", service="shop-backend"`) {
		t.Errorf("dashboard is %+v", content)
	}
}

func TestIngress(t *testing.T) {
	plain := newApplication().Ingress(tier.Entry{Host: "shop.example.com"})
	secure := newApplication().Ingress(tier.Entry{Host: "shop.example.com", ClassName: "nginx", TLSSecret: "certificate"})

	if plain.Endpoint != "http://shop.example.com" || secure.Endpoint != "https://shop.example.com" {
		t.Errorf("endpoints are %q and %q", plain.Endpoint, secure.Endpoint)
	}
	spec := child[*networkingv1ac.IngressApplyConfiguration](secure).Spec
	if *spec.IngressClassName != "nginx" || *spec.TLS[0].SecretName != "certificate" || *spec.Rules[0].Host != "shop.example.com" {
		t.Errorf("spec is %+v", spec)
	}
}

func TestBackupsOfMySQL(t *testing.T) {
	if _, ok := newApplication(withBackups).Backups(childv1alpha1.ChildrenStatus{}); ok {
		t.Error("a PostgreSQL makes its backups itself")
	}

	got, ok := newApplication(mySQL, withBackups).Backups(childv1alpha1.ChildrenStatus{})

	if diff := cmp.Diff([]string{"Backup/shop-db-backup"}, childNames(got)); diff != "" || !ok {
		t.Errorf("children (-want +got):\n%s", diff)
	}
}
