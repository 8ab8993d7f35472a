// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	exampleclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/example/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// installWebApps installs the kind, which the operator that runs already waits for.
var installWebApps = sync.OnceValue(func() error {
	ctx := context.Background()
	return errors.Join(
		shared.InstallCRDs(ctx, "artifacts/kinds/webapp/crd.yaml"),
		shared.ApplyFiles(ctx, "", "artifacts/kinds/webapp/rbac.yaml"),
	)
})

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

// webSite is a namespace, whose pods must meet the restricted profile, with the WebApp "web".
type webSite struct {
	site

	webapps exampleclient.WebAppInterface
}

func newWebSite(t *testing.T) *webSite {
	t.Helper()
	if err := installWebApps(); err != nil {
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
	return &webSite{site: site{t: t, namespace: namespace}, webapps: client.ExampleV1().WebApps(namespace)}
}

func (s *webSite) createWebApp(change ...func(*examplev1.WebAppSpec)) *examplev1.WebApp {
	s.t.Helper()
	web := &examplev1.WebApp{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: examplev1.WebAppSpec{Replicas: 2, Image: "nginx:1"}}
	for _, c := range change {
		c(&web.Spec)
	}
	created, err := s.webapps.Create(s.t.Context(), web, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return created
}

func (s *webSite) changeWebApp(change func(*examplev1.WebAppSpec)) {
	s.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		web, err := s.webapps.Get(s.t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&web.Spec)
		_, err = s.webapps.Update(s.t.Context(), web, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// awaitWebApp returns the WebApp once its status is about its newest spec and Ready has the reason.
func (s *webSite) awaitWebApp(reason string) *examplev1.WebApp {
	s.t.Helper()
	var web *examplev1.WebApp
	cluster.Eventually(s.t.Context(), s.t, "the WebApp is "+reason, func(ctx context.Context) (bool, error) {
		var err error
		if web, err = s.webapps.Get(ctx, "web", metav1.GetOptions{}); err != nil {
			return false, err
		}
		ready := meta.FindStatusCondition(web.Status.Conditions, "Ready")
		if ready == nil || ready.ObservedGeneration != web.Generation || ready.Reason != reason {
			return false, fmt.Errorf("status is %+v", web.Status)
		}
		return true, nil
	})
	return web
}

// TestWebAppLife follows a WebApp from its creation to its deletion, and counts the requests.
func TestWebAppLife(t *testing.T) {
	t.Parallel()
	s := newWebSite(t)

	begin := time.Now()
	s.createWebApp()
	web := s.awaitWebApp(apimeta.ReasonHealthy)
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
	s.changeWebApp(func(spec *examplev1.WebAppSpec) { spec.Replicas = 3 })
	if scaled := s.awaitWebApp(apimeta.ReasonHealthy); scaled.Status.ReadyReplicas != 3 {
		t.Errorf("status after the scaling is %+v", scaled.Status)
	}
	if requests := s.settle(begin); requests["patch deployments"] != 1 || requests["patch services"] > 0 {
		t.Errorf("requests of the scaling are %v", requests)
	}

	begin = time.Now()
	if err := s.webapps.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
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

// TestWebAppSecurityContextThatIsRefused: the namespace enforces the restricted profile. The refusal is reported at once and
// costs no requests at rest.
func TestWebAppSecurityContextThatIsRefused(t *testing.T) {
	t.Parallel()
	s := newWebSite(t)

	s.createWebApp(func(spec *examplev1.WebAppSpec) {
		spec.SecurityContext = &workloadv1alpha1.SecurityContext{
			RunAsUser: ptr.To[int64](0), RunAsNonRoot: ptr.To(false), Privileged: ptr.To(true),
			AllowPrivilegeEscalation: ptr.To(true),
		}
	})

	web := s.awaitWebApp(examplev1.ReasonPodsRefused)
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

	s.changeWebApp(func(spec *examplev1.WebAppSpec) { spec.SecurityContext = nil })
	s.awaitWebApp(apimeta.ReasonHealthy)
}
