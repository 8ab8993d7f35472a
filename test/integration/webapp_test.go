// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	exampleclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/example/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// cleanups are the requests that the cleanup server got, by namespace.
var cleanups struct {
	sync.Mutex
	requests map[string][]string
}

// cleanupHook starts the cleanup server of the shared operator, and returns the flag with its URL.
func cleanupHook(t *cluster.MainTest) string {
	cleanups.requests = map[string][]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		namespace, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		cleanups.Lock()
		defer cleanups.Unlock()
		cleanups.requests[namespace] = append(cleanups.requests[namespace], r.Method+" "+name)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	return "--webapp-cleanup-url=" + server.URL + "/{{.Namespace}}/{{.Name}}"
}

// webSite is a namespace for the WebApp "web".
type webSite struct {
	*plain[*examplev1.WebApp]
}

func newWebSite(t *testing.T) *webSite {
	t.Helper()
	return &webSite{newPlain[*examplev1.WebApp](t, "web", func(client *versioned.Clientset, namespace string) exampleclient.WebAppInterface {
		return client.ExampleV1().WebApps(namespace)
	}, "webapp")}
}

func (s *webSite) create(change ...func(*examplev1.WebAppSpec)) {
	s.t.Helper()
	web := &examplev1.WebApp{Spec: examplev1.WebAppSpec{Replicas: 2, Image: "nginx:1"}}
	for _, c := range change {
		c(&web.Spec)
	}
	s.add(web)
}

// TestWebAppLife follows a WebApp from its creation to its deletion, and counts the requests.
func TestWebAppLife(t *testing.T) {
	t.Parallel()
	s := newWebSite(t)

	begin := time.Now()
	s.create()
	web := s.awaitReady()
	created := s.settle(begin)
	assertStatusWrites(t, created, "webapps", 2, begin)
	// The first patch of the WebApp is its finalizer.
	if want := map[string]int{"patch webapps": 1, "patch deployments": 1, "patch services": 1, "create events": 2}; !maps.Equal(created, want) {
		t.Errorf("requests of the creation, without status, are %v, want %v", created, want)
	}
	if web.Status.Phase != examplev1.PhaseRunning || web.Status.ReadyReplicas != 2 || !meta.IsStatusConditionTrue(web.Status.Conditions, "Available") {
		t.Errorf("status is %+v", web.Status)
	}
	service, err := shared.Client.CoreV1().Services(s.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || service.Spec.Ports[0].Port != 8080 {
		t.Errorf("Service is %+v, %v", service, err)
	}

	begin = time.Now()
	s.update(func(web *examplev1.WebApp) { web.Spec.Replicas = 3 })
	if scaled := s.awaitReady(); scaled.Status.ReadyReplicas != 3 {
		t.Errorf("status after the scaling is %+v", scaled.Status)
	}
	if requests := s.settle(begin); requests["patch deployments"] != 1 || requests["patch services"] > 0 {
		t.Errorf("requests of the scaling are %v", requests)
	}

	begin = time.Now()
	s.remove()
	cluster.Eventually(t.Context(), t, "the children are gone", func(ctx context.Context) (bool, error) {
		_, err1 := shared.Client.AppsV1().Deployments(s.namespace).Get(ctx, "web", metav1.GetOptions{})
		_, err2 := shared.Client.CoreV1().Services(s.namespace).Get(ctx, "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err1) && apierrors.IsNotFound(err2), nil
	})
	s.assertRequests(begin, map[string]int{"patch webapps": 1, "create events": 1})
	cleanups.Lock()
	defer cleanups.Unlock()
	if calls := cleanups.requests[s.namespace]; !slices.Equal(calls, []string{"DELETE web"}) {
		t.Errorf("the cleanup server got %q", calls)
	}
}

// TestWebAppSecurityContextThatIsRefused: the namespace enforces the restricted profile. The
// refusal is reported at once and costs no requests at rest.
func TestWebAppSecurityContextThatIsRefused(t *testing.T) {
	t.Parallel()
	s := newWebSite(t)

	s.create(func(spec *examplev1.WebAppSpec) {
		spec.SecurityContext = &workloadv1alpha1.SecurityContext{
			RunAsUser: ptr.To[int64](0), RunAsNonRoot: ptr.To(false), Privileged: ptr.To(true),
			AllowPrivilegeEscalation: ptr.To(true),
		}
	})

	web := s.await(apimeta.ConditionReady, examplev1.ReasonPodsRefused)
	stalled := meta.FindStatusCondition(web.Status.Conditions, "Stalled")
	if stalled == nil || !strings.HasPrefix(stalled.Message, "spec.securityContext: ") || !strings.Contains(stalled.Message, "privileged") {
		t.Errorf("conditions are %+v", web.Status.Conditions)
	}
	if web.Status.Phase != examplev1.PhasePending {
		t.Errorf("phase is %s", web.Status.Phase)
	}
	s.settle(time.Now())
	begin := time.Now()
	s.assertRequests(begin, map[string]int{})

	s.update(func(web *examplev1.WebApp) { web.Spec.SecurityContext = nil })
	s.awaitReady()
}
