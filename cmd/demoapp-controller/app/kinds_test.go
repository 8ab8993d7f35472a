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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/example/demoapp-controller/pkg/controller/kinds/website"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned/scheme"
	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/pkg/operator/releasekinds"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// parts are the names of the parts that a kind adds to the process.
type parts struct{ Services, Controllers []string }

// clusterWide are the informers that --namespaces does not limit, because their objects have no
// namespace, or a namespace that a flag names.
var clusterWide = []string{
	"informer of Nodes", "informer of IngressClasses", "informer of CustomResourceDefinition httproutes.gateway.networking.k8s.io",
	"informer of audit records in demoapp-audit",
}

// TestKinds: each kind has a controller of its name. Kinds share informers, so each informer is
// added once. With namespaces, it is added once for each of them.
func TestKinds(t *testing.T) {
	all, some := registeredParts(t, nil), registeredParts(t, []string{"a", "b"})
	owners := map[string]string{}
	for name, got := range all {
		if !slices.Contains(got.Controllers, name) {
			t.Errorf("the controllers of kind %s are %q", name, got.Controllers)
		}
		var want []string
		for _, service := range got.Services {
			if owner := owners[service]; owner != "" {
				t.Errorf("%s is added by the kinds %s and %s", service, owner, name)
			}
			owners[service] = name
			if !strings.HasPrefix(service, "informer of ") || slices.Contains(clusterWide, service) {
				want = append(want, service)
				continue
			}
			want = append(want, service+" in a", service+" in b")
		}
		if diff := cmp.Diff(want, some[name].Services); diff != "" {
			t.Errorf("services of kind %s with namespaces (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(got.Controllers, some[name].Controllers); diff != "" {
			t.Errorf("controllers of kind %s with namespaces (-want +got):\n%s", name, diff)
		}
	}
}

// registeredParts returns the parts of all kinds in one process.
func registeredParts(t *testing.T, namespaces []string) map[string]parts {
	t.Helper()
	env, got := newEnvironment(t, namespaces), map[string]parts{}
	registered, err := kinds(t.Context(), parse(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range registered {
		got[kind.Name] = build(t, env, kind)
	}
	return got
}

// TestControllers: a kind that is switched off is not registered, and a watches.yaml that is
// switched off is not read.
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

// TestKindsInAnyOrder builds DemoAppCluster before DemoApp. The order varies, because a kind waits
// for its CRDs.
func TestKindsInAnyOrder(t *testing.T) {
	env := newEnvironment(t, nil)

	got := build(t, env, demoAppClusters(parse(t)))
	then := build(t, env, demoApps(parse(t), &releasekinds.Engine{}))

	if diff := cmp.Diff([]string{"informer of DemoApps", "informer of DemoAppClusters", "informer of Nodes"}, got.Services); diff != "" {
		t.Errorf("services of the first (-want +got):\n%s", diff)
	}
	if len(then.Services) == 0 || slices.Contains(then.Services, "informer of DemoApps") {
		t.Errorf("services of the second = %q, want a shared informer of DemoApps", then.Services)
	}
}

// TestResourcesCoverAllCaches: a kind starts when its Resources can be watched. A cache that needs
// further permissions would not sync. Only the audit namespace is apart.
func TestResourcesCoverAllCaches(t *testing.T) {
	registered, err := kinds(t.Context(), parse(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range registered {
		t.Run(kind.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := fakeapi.New(t)
				serve(server, kind.Resources)
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

// serve adds the resources that the server does not serve yet. Their kinds come from the schemes.
func serve(server *fakeapi.Server, resources []schema.GroupVersionResource) {
	for _, types := range []*runtime.Scheme{scheme.Scheme, kubernetesscheme.Scheme} {
		for kind := range types.AllKnownTypes() {
			resource, _ := meta.UnsafeGuessKindToResource(kind)
			if _, served := server.Kinds[resource]; !served && slices.Contains(resources, resource) {
				server.Serve(resource, kind.Kind, true)
			}
		}
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

// build returns the parts that kind adds to env. It checks that no cache is synced before its
// informer runs.
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
