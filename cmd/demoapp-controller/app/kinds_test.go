// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	appv1 "github.com/example/demoapp-controller/pkg/apis/app/v1"
	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	configv1 "github.com/example/demoapp-controller/pkg/apis/config/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	demov1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/pkg/controller/appconfig"
	"github.com/example/demoapp-controller/pkg/controller/appstack"
	"github.com/example/demoapp-controller/pkg/controller/audit"
	"github.com/example/demoapp-controller/pkg/controller/backup"
	"github.com/example/demoapp-controller/pkg/controller/demoapp"
	"github.com/example/demoapp-controller/pkg/controller/demoappcluster"
	"github.com/example/demoapp-controller/pkg/controller/ecommerceplatform"
	"github.com/example/demoapp-controller/pkg/controller/memcachedbackup"
	"github.com/example/demoapp-controller/pkg/controller/postgresql"
	"github.com/example/demoapp-controller/pkg/controller/webapp"
	"github.com/example/demoapp-controller/pkg/controller/website"
	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/pkg/operator/releasekinds"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// parts are the names of the parts that a kind adds to the process.
type parts struct{ Services, Controllers []string }

func TestKinds(t *testing.T) {
	tests := []struct {
		name       string
		namespaces []string
		want       map[string]parts
	}{
		{
			name: "all namespaces",
			want: map[string]parts{
				demoapp.Name: {
					Services: []string{
						"informer of DemoApps", "informer of Secrets", "informer of ConfigMaps",
						"informer of IngressClasses", "informer of CustomResourceDefinition httproutes.gateway.networking.k8s.io",
						"informer of audit records in demoapp-audit", "helm engine",
					},
					Controllers: []string{demoapp.Name, audit.Name},
				},
				demoappcluster.Name: {
					Services:    []string{"informer of DemoAppClusters", "informer of Nodes"},
					Controllers: []string{demoappcluster.Name},
				},
				website.Name: {
					Services: []string{
						"informer of Websites", "informer of children of kind ConfigMap",
						"informer of children of kind Deployment.apps", "informer of children of kind Service",
					},
					Controllers: []string{website.Name},
				},
				webapp.Name: {
					Services:    []string{"informer of WebApps"},
					Controllers: []string{webapp.Name},
				},
				memcachedbackup.Name: {
					Services: []string{
						"informer of MemcachedBackups", "informer of pods with label cache.my.domain/memcachedbackup",
					},
					Controllers: []string{memcachedbackup.Name},
				},
				appconfig.Name: {
					Services: []string{
						"informer of AppConfigs", "informer of DaemonSets with label config.example.com/reload",
						"informer of Deployments with label config.example.com/reload",
						"informer of StatefulSets with label config.example.com/reload",
					},
					Controllers: []string{appconfig.Name},
				},
				backup.Name: {
					Services: []string{
						"informer of Backups", "informer of children of kind CronJob.batch",
						"informer of Jobs with label backup.example.com/backup", "informer of keys of Secrets",
					},
					Controllers: []string{backup.Name},
				},
				appstack.Name: {
					Services:    []string{"informer of AppStacks"},
					Controllers: []string{appstack.Name},
				},
				postgresql.Name: {
					Services: []string{
						"informer of PostgreSQLs", "informer of Secrets with label database.example.com/postgresql",
						"informer of PersistentVolumeClaims with label database.example.com/postgresql",
						"informer of Pods with label database.example.com/postgresql",
						"informer of children of kind StatefulSet.apps", "informer of children of kind PodDisruptionBudget.policy",
					},
					Controllers: []string{postgresql.Name},
				},
				ecommerceplatform.Name: {
					Services: []string{
						"informer of EcommercePlatforms",
						"informer of children of kind Ingress.networking.k8s.io",
						"informer of children of kind NetworkPolicy.networking.k8s.io",
						"informer of Secrets with label platform", "informer of PersistentVolumeClaims with label platform",
					},
					Controllers: []string{ecommerceplatform.Name},
				},
			},
		},
		{
			name:       "some namespaces",
			namespaces: []string{"a", "b"},
			want: map[string]parts{
				demoapp.Name: {
					Services: []string{
						"informer of DemoApps in a", "informer of DemoApps in b",
						"informer of Secrets in a", "informer of Secrets in b",
						"informer of ConfigMaps in a", "informer of ConfigMaps in b",
						"informer of IngressClasses", "informer of CustomResourceDefinition httproutes.gateway.networking.k8s.io",
						"informer of audit records in demoapp-audit", "helm engine",
					},
					Controllers: []string{demoapp.Name, audit.Name},
				},
				demoappcluster.Name: {
					Services:    []string{"informer of DemoAppClusters in a", "informer of DemoAppClusters in b", "informer of Nodes"},
					Controllers: []string{demoappcluster.Name},
				},
				website.Name: {
					Services: []string{
						"informer of Websites in a", "informer of Websites in b",
						"informer of children of kind ConfigMap in a", "informer of children of kind ConfigMap in b",
						"informer of children of kind Deployment.apps in a", "informer of children of kind Deployment.apps in b",
						"informer of children of kind Service in a", "informer of children of kind Service in b",
					},
					Controllers: []string{website.Name},
				},
				webapp.Name: {
					Services:    []string{"informer of WebApps in a", "informer of WebApps in b"},
					Controllers: []string{webapp.Name},
				},
				memcachedbackup.Name: {
					Services: []string{
						"informer of MemcachedBackups in a", "informer of MemcachedBackups in b",
						"informer of pods with label cache.my.domain/memcachedbackup in a",
						"informer of pods with label cache.my.domain/memcachedbackup in b",
					},
					Controllers: []string{memcachedbackup.Name},
				},
				appconfig.Name: {
					Services: []string{
						"informer of AppConfigs in a", "informer of AppConfigs in b",
						"informer of DaemonSets with label config.example.com/reload in a",
						"informer of DaemonSets with label config.example.com/reload in b",
						"informer of Deployments with label config.example.com/reload in a",
						"informer of Deployments with label config.example.com/reload in b",
						"informer of StatefulSets with label config.example.com/reload in a",
						"informer of StatefulSets with label config.example.com/reload in b",
					},
					Controllers: []string{appconfig.Name},
				},
				backup.Name: {
					Services: []string{
						"informer of Backups in a", "informer of Backups in b",
						"informer of children of kind CronJob.batch in a", "informer of children of kind CronJob.batch in b",
						"informer of Jobs with label backup.example.com/backup in a", "informer of Jobs with label backup.example.com/backup in b",
						"informer of keys of Secrets in a", "informer of keys of Secrets in b",
					},
					Controllers: []string{backup.Name},
				},
				appstack.Name: {
					Services: []string{
						"informer of AppStacks in a", "informer of AppStacks in b",
					},
					Controllers: []string{appstack.Name},
				},
				postgresql.Name: {
					Services: []string{
						"informer of PostgreSQLs in a", "informer of PostgreSQLs in b",
						"informer of Secrets with label database.example.com/postgresql in a", "informer of Secrets with label database.example.com/postgresql in b",
						"informer of PersistentVolumeClaims with label database.example.com/postgresql in a", "informer of PersistentVolumeClaims with label database.example.com/postgresql in b",
						"informer of Pods with label database.example.com/postgresql in a", "informer of Pods with label database.example.com/postgresql in b",
						"informer of children of kind StatefulSet.apps in a", "informer of children of kind StatefulSet.apps in b",
						"informer of children of kind PodDisruptionBudget.policy in a", "informer of children of kind PodDisruptionBudget.policy in b",
					},
					Controllers: []string{postgresql.Name},
				},
				ecommerceplatform.Name: {
					Services: []string{
						"informer of EcommercePlatforms in a", "informer of EcommercePlatforms in b",
						"informer of children of kind Ingress.networking.k8s.io in a",
						"informer of children of kind Ingress.networking.k8s.io in b",
						"informer of children of kind NetworkPolicy.networking.k8s.io in a",
						"informer of children of kind NetworkPolicy.networking.k8s.io in b",
						"informer of Secrets with label platform in a", "informer of Secrets with label platform in b",
						"informer of PersistentVolumeClaims with label platform in a", "informer of PersistentVolumeClaims with label platform in b",
					},
					Controllers: []string{ecommerceplatform.Name},
				},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			env := newEnvironment(t, test.namespaces)

			got := map[string]parts{}
			registered, err := kinds(t.Context(), parse(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range registered {
				got[kind.Name] = build(t, env, kind)
			}

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestControllers: a kind that is switched off is not registered, and a watches.yaml that is switched off is not read.
func TestControllers(t *testing.T) {
	const missing = "--watches-file=/does/not/exist/watches.yaml"
	tests := []struct {
		name string
		args []string
		want []string
		err  string
	}{
		{name: "one kind", args: []string{"--controllers=website"}, want: []string{website.Name}},
		{name: "one kind beside watches.yaml", args: []string{"--controllers=website", missing}, want: []string{website.Name}},
		{name: "watches.yaml", args: []string{"--controllers=watches", missing}, err: missing[len("--watches-file="):]},
		{name: "unknown kind", args: []string{"--controllers=*,-websites"}, err: `"-websites" is the name of no kind`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			registered, err := kinds(t.Context(), parse(t, test.args...))

			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Fatalf("error = %v, want one with %q", err, test.err)
			}
			var got []string
			for _, kind := range registered {
				got = append(got, kind.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

// TestObserveBlocked: the labels are the entries of --blocked-images, whatever images WebApps have.
func TestObserveBlocked(t *testing.T) {
	registry := prometheus.NewRegistry()

	observeBlocked(registry, []string{"nginx", "redis:7"}, func() map[string]int { return map[string]int{"nginx": 2, "other": 9} })

	want := `# HELP webapps_with_blocked_image WebApps whose image is blocked, by the entry of --blocked-images.
# TYPE webapps_with_blocked_image gauge
webapps_with_blocked_image{entry="nginx"} 2
webapps_with_blocked_image{entry="redis:7"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestKindsInAnyOrder builds DemoAppCluster before DemoApp. The order varies, because a kind waits for its CRDs.
func TestKindsInAnyOrder(t *testing.T) {
	env := newEnvironment(t, nil)

	got := build(t, env, demoAppClusters(parse(t)))
	then := build(t, env, demoApps(parse(t), &releasekinds.Engine{}))

	if diff := cmp.Diff([]string{"informer of DemoApps", "informer of DemoAppClusters", "informer of Nodes"}, got.Services); diff != "" {
		t.Errorf("services of the first (-want +got):\n%s", diff)
	}
	if len(then.Services) == 0 || then.Services[0] != "informer of Secrets" {
		t.Errorf("services of the second = %q, want a shared informer of DemoApps", then.Services)
	}
}

// TestResourcesAreAllThatCachesNeed: a kind starts when its Resources can be watched. A cache that needs further
// permissions would not sync. Only the audit namespace is apart.
func TestResourcesAreAllThatCachesNeed(t *testing.T) {
	registered, err := kinds(t.Context(), parse(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range registered {
		t.Run(kind.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := fakeapi.New(t)
				server.Serve(demoAppResource, "DemoApp", true)
				server.Serve(demov1alpha1.SchemeGroupVersion.WithResource("demoappclusters"), "DemoAppCluster", true)
				server.Serve(webappv1.SchemeGroupVersion.WithResource("websites"), "Website", true)
				server.Serve(appv1.SchemeGroupVersion.WithResource("appstacks"), "AppStack", true)
				server.Serve(databasev1.SchemeGroupVersion.WithResource("postgresqls"), "PostgreSQL", true)
				server.Serve(examplev1.SchemeGroupVersion.WithResource("webapps"), "WebApp", true)
				server.Serve(cachev1.SchemeGroupVersion.WithResource("memcachedbackups"), "MemcachedBackup", true)
				server.Serve(backupv1.SchemeGroupVersion.WithResource("backups"), "Backup", true)
				server.Serve(batchv1.SchemeGroupVersion.WithResource("cronjobs"), "CronJob", true)
				server.Serve(platformv1.SchemeGroupVersion.WithResource("ecommerceplatforms"), "EcommercePlatform", true)
				server.Serve(networkingv1.SchemeGroupVersion.WithResource("ingresses"), "Ingress", true)
				server.Serve(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), "PodDisruptionBudget", true)
				server.Serve(configv1.SchemeGroupVersion.WithResource("appconfigs"), "AppConfig", true)
				server.Serve(appsv1.SchemeGroupVersion.WithResource("daemonsets"), "DaemonSet", true)
				server.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
					resource := request.Key.Resource
					if slices.Contains(kind.Resources, resource) || request.Key.Namespace == "demoapp-audit" {
						return nil
					}
					return apierrors.NewForbidden(resource.GroupResource(), "", errors.New("RBAC"))
				}
				config := server.RESTConfig()
				config.Transport = server
				parts, err := newEnvironmentAt(t, config, []string{"a"}).Build(kind)
				if err != nil {
					t.Fatal(err)
				}

				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				for _, service := range parts.Services {
					running.Go(func() { _ = service.Run(ctx) })
				}
				<-time.After(time.Minute)

				for _, cache := range parts.Synced {
					if !cache.HasSynced() {
						t.Errorf("the cache of %s has not synced", cache.Name)
					}
				}
				stop()
				running.Wait()
			})
		})
	}
}

func newEnvironment(t *testing.T, namespaces []string) *operator.Environment {
	t.Helper()
	return newEnvironmentAt(t, &rest.Config{Host: "http://127.0.0.1:1"}, namespaces)
}

// newEnvironmentAt returns an environment with the clients of an API server.
func newEnvironmentAt(t *testing.T, server *rest.Config, namespaces []string) *operator.Environment {
	t.Helper()
	clients, err := operator.NewClients(server)
	if err != nil {
		t.Fatal(err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{})
	t.Cleanup(broadcaster.Shutdown)
	return operator.NewEnvironment(programName, clients, namespaces, broadcaster, prometheus.NewRegistry())
}

// build returns the parts that kind adds to env. It checks that no cache is synced before its informer runs.
func build(t *testing.T, env *operator.Environment, kind operator.Kind) parts {
	t.Helper()
	built, err := env.Build(kind)
	if err != nil {
		t.Fatalf("%s: %v", kind.Name, err)
	}
	var got parts
	for _, s := range built.Services {
		got.Services = append(got.Services, s.Name)
	}
	for _, c := range built.Controllers {
		got.Controllers = append(got.Controllers, c.Name)
	}
	if len(built.Synced) == 0 {
		t.Errorf("%s: readiness depends on no cache", kind.Name)
	}
	for _, s := range built.Synced {
		if s.HasSynced() {
			t.Errorf("%s is synced before its informer runs", s.Name)
		}
	}
	return got
}
