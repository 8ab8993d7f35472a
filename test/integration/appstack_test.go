// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "github.com/example/demoapp-controller/pkg/apis/app/v1"
	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	appclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/app/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// stackChildren are the children of an AppStack except the PostgreSQL.
var stackChildren = []string{"shop-cache", "shop-backend", "shop-frontend"}

// stacks is a namespace for the AppStack "shop". Its database starts when the test provides a
// volume, because the cluster has no provisioner.
type stacks struct {
	*plain[*appv1.AppStack]

	// database is the name of the PostgreSQL.
	database string
}

func newStacks(t *testing.T) *stacks {
	t.Helper()
	return &stacks{newPlain[*appv1.AppStack](t, "shop", func(client *versioned.Clientset, namespace string) appclient.AppStackInterface {
		return client.AppV1().AppStacks(namespace)
	}, "postgresql", "appstack"), "shop-db"}
}

func (s *stacks) create() {
	s.t.Helper()
	s.add(&appv1.AppStack{Spec: appv1.AppStackSpec{
		Backend:  appv1.AppStackComponent{Image: "backend:1", Replicas: ptr.To[int32](2)},
		Frontend: appv1.AppStackComponent{Image: "frontend:1", Port: 80},
	}})
}

// change sends a merge patch of the spec.
func (s *stacks) change(spec string) {
	s.t.Helper()
	s.patch(`{"spec":` + spec + `}`)
}

// await returns the AppStack once its status is about its newest spec and it is in that phase.
func (s *stacks) await(phase string) *appv1.AppStack {
	s.t.Helper()
	return s.awaitObject("the AppStack is "+phase, func(stack *appv1.AppStack) bool {
		return stack.Status.ObservedGeneration == stack.Generation && stack.Status.Phase == phase
	})
}

// awaitMessage waits until the AppStack is being deployed and the message of its condition Ready
// contains text.
func (s *stacks) awaitMessage(text string) {
	s.t.Helper()
	cluster.Eventually(s.t.Context(), s.t, "the message contains "+text, func(context.Context) (bool, error) {
		got := message(s.await(childv1alpha1.PhaseDeploying))
		return strings.Contains(got, text), errors.New(got)
	})
}

// provideVolume creates the volume of the database. The database then becomes ready.
func (s *stacks) provideVolume() {
	s.t.Helper()
	shared.Volume(s.t, s.namespace, "data-"+s.database+"-0", "10Gi")
}

// run creates the AppStack and awaits its readiness.
func (s *stacks) run() *appv1.AppStack {
	s.t.Helper()
	s.create()
	s.provideVolume()
	return s.await(childv1alpha1.PhaseRunning)
}

func (s *stacks) deployment(name string) (*appsv1.Deployment, error) {
	return shared.Client.AppsV1().Deployments(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
}

func (s *stacks) service(name string) (*corev1.Service, error) {
	return shared.Client.CoreV1().Services(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
}

// requests waits until the operator is done in the namespace, and returns its writes since then for
// the AppStack and its children, by verb and resource. Events and the children of the PostgreSQL
// are left out.
func (s *stacks) requests(since time.Time) map[string]int {
	s.t.Helper()
	return requestsOf(s.t, s.namespace, since, func(e cluster.AuditEvent) bool {
		ofDatabase := e.Resource == "postgresqls" && e.Subresource == ""
		return e.Resource == "appstacks" || ofDatabase || slices.Contains(stackChildren, e.Name)
	})
}

// message is the message of the condition Ready.
func message(stack *appv1.AppStack) string {
	return meta.FindStatusCondition(stack.Status.Conditions, apimeta.ConditionReady).Message
}

func assertContains(t *testing.T, what, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%s is %q, want it to contain %q", what, got, want)
	}
}

// TestAppStackLife follows an AppStack from its creation to its deletion, and counts the requests.
func TestAppStackLife(t *testing.T) {
	t.Parallel()
	s := newStacks(t)

	begin := time.Now()
	s.create()
	s.awaitMessage(`spec.database: PostgreSQL "shop-db": StatefulSet "shop-db": `)
	requests := s.requests(begin)
	assertStatusWrites(t, requests, "appstacks", 1, begin)
	// The second patch of the PostgreSQL is its finalizer.
	if want := map[string]int{"patch postgresqls": 2}; !maps.Equal(requests, want) {
		t.Errorf("requests before the database is ready, without status, are %v, want %v", requests, want)
	}
	stack := s.await(childv1alpha1.PhaseDeploying)
	assertContains(t, "message", message(stack), "; not started yet: cache, backend, frontend")

	begin = time.Now()
	s.provideVolume()
	stack = s.await(childv1alpha1.PhaseRunning)
	requests = s.requests(begin)
	assertStatusWrites(t, requests, "appstacks", 1, begin)
	if want := map[string]int{"patch deployments": 3, "patch services": 3}; !maps.Equal(requests, want) {
		t.Errorf("requests of the start, without status, are %v, want %v", requests, want)
	}
	for i, name := range []string{"database", "cache", "backend", "frontend"} {
		if c := stack.Status.Components[i]; c.Name != name || !c.Ready || c.Endpoint == "" {
			t.Errorf("component %d is %+v, want %s", i, c, name)
		}
	}

	s.change(`{"cache":{"enabled":false}}`)
	s.await(childv1alpha1.PhaseRunning)
	_, err1 := s.deployment("shop-cache")
	_, err2 := s.service("shop-cache")
	if !apierrors.IsNotFound(err1) || !apierrors.IsNotFound(err2) {
		t.Errorf("the cache is still there: Deployment %v, Service %v", err1, err2)
	}

	s.remove()
	cluster.Eventually(t.Context(), t, "the children are gone", func(ctx context.Context) (bool, error) {
		_, err := s.client.DatabaseV1().PostgreSQLs(s.namespace).Get(ctx, "shop-db", metav1.GetOptions{})
		errs := []error{err}
		for _, name := range stackChildren {
			_, err1 := s.deployment(name)
			_, err2 := s.service(name)
			errs = append(errs, err1, err2)
		}
		return !slices.ContainsFunc(errs, func(err error) bool { return !apierrors.IsNotFound(err) }), nil
	})
}

// TestAppStackPodsThatAdmissionRefuses: the condition says why the pods of a component cannot be
// created.
func TestAppStackPodsThatAdmissionRefuses(t *testing.T) {
	t.Parallel()
	s := newStacks(t)
	s.run()
	cache, err := s.deployment("shop-cache")
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: cache.Spec.Template.Spec}
	pod.Spec.Containers[0].Image = forbiddenImage
	policy{
		name: "pods-" + s.namespace, namespace: s.namespace, group: "", version: "v1", resource: "pods",
		expression: `object.spec.containers.all(c, !c.image.startsWith("forbidden.example.com/"))`,
		message:    `"this image is not welcome here"`,
	}.apply(t, func(ctx context.Context) error {
		_, err := shared.Client.CoreV1().Pods(s.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})

	s.change(`{"cache":{"image":"` + forbiddenImage + `"}}`)

	s.awaitMessage("this image is not welcome here")
}
