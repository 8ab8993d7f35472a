// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	appv1 "github.com/example/demoapp-controller/pkg/apis/app/v1"
	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	"github.com/example/demoapp-controller/test/cluster"
)

// installAppStacks installs the kind and that of its databases. The operator runs already, and waits for them.
var installAppStacks = sync.OnceValue(func() error {
	ctx := context.Background()
	return errors.Join(
		shared.InstallCRDs(ctx, "artifacts/kinds/postgresql/crd.yaml", "artifacts/kinds/appstack/crd.yaml"),
		shared.ApplyFiles(ctx, "", "artifacts/kinds/postgresql/rbac.yaml", "artifacts/kinds/appstack/rbac.yaml"),
	)
})

// stackChildren are the children of an AppStack beside the PostgreSQL.
var stackChildren = []string{"shop-cache", "shop-backend", "shop-frontend"}

// stacks is a namespace whose pods must meet the restricted profile, for the AppStack "shop". Its database starts when the test
// provides a volume, because the cluster has no provisioner.
type stacks struct {
	t         *testing.T
	namespace string
	// database is the name of the PostgreSQL.
	database string
	client   versioned.Interface
}

func newStacks(t *testing.T) *stacks {
	t.Helper()
	if err := installAppStacks(); err != nil {
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
	return &stacks{t: t, namespace: namespace, database: "shop-db", client: client}
}

func (s *stacks) create() {
	s.t.Helper()
	_, err := s.client.AppV1().AppStacks(s.namespace).Create(s.t.Context(), &appv1.AppStack{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: appv1.AppStackSpec{
			Backend:  appv1.AppStackComponent{Image: "backend:1", Replicas: ptr.To[int32](2)},
			Frontend: appv1.AppStackComponent{Image: "frontend:1", Port: 80},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// change sends a merge patch of the spec.
func (s *stacks) change(spec string) {
	s.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":%s}`, spec)
	if _, err := s.client.AppV1().AppStacks(s.namespace).Patch(s.t.Context(), "shop", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// await returns the AppStack once its status is about its newest spec and it is in that phase.
func (s *stacks) await(phase string) *appv1.AppStack {
	s.t.Helper()
	var stack *appv1.AppStack
	cluster.Eventually(s.t.Context(), s.t, "the AppStack is "+phase, func(ctx context.Context) (bool, error) {
		var err error
		if stack, err = s.client.AppV1().AppStacks(s.namespace).Get(ctx, "shop", metav1.GetOptions{}); err != nil {
			return false, err
		}
		if stack.Status.ObservedGeneration != stack.Generation || stack.Status.Phase != phase {
			return false, fmt.Errorf("status is %+v", stack.Status)
		}
		return true, nil
	})
	return stack
}

// awaitMessage waits until the AppStack is being deployed and the message of its condition Ready contains text.
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

// setDatabaseReady makes the primary of the database ready, or not ready.
func (s *stacks) setDatabaseReady(ready corev1.ConditionStatus) {
	s.t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, ready)
	_, err := shared.Client.CoreV1().Pods(s.namespace).Patch(s.t.Context(), "shop-db-0", types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if err != nil {
		s.t.Fatal(err)
	}
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

// awaitDeployment awaits a Deployment.
func (s *stacks) awaitDeployment(name string) {
	s.t.Helper()
	cluster.Eventually(s.t.Context(), s.t, "Deployment "+name+" exists", func(context.Context) (bool, error) {
		_, err := s.deployment(name)
		return err == nil, err
	})
}

func (s *stacks) service(name string) (*corev1.Service, error) {
	return shared.Client.CoreV1().Services(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
}

// requests waits until the operator is done in the namespace, and returns what it wrote since for the AppStack and its
// children, by verb and resource. Events and the children of the PostgreSQL are left out.
func (s *stacks) requests(since time.Time) map[string]int {
	s.t.Helper()
	return requestsOf(s.t, s.namespace, since, func(e cluster.AuditEvent) bool {
		ofDatabase := e.Resource == "postgresqls" && e.Subresource == ""
		return e.Resource == "appstacks" || ofDatabase || slices.Contains(stackChildren, e.Name)
	})
}

// message is that of the condition Ready.
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

	if err := s.client.AppV1().AppStacks(s.namespace).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
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

// TestAppStackOrder: each component is created after the one before it was ready.
func TestAppStackOrder(t *testing.T) {
	t.Parallel()
	s := newStacks(t)
	s.create()
	s.requests(time.Now())
	for _, name := range stackChildren {
		if _, err := s.deployment(name); !apierrors.IsNotFound(err) {
			t.Errorf("Deployment %s before the database is ready: %v", name, err)
		}
	}

	s.change(`{"cache":{"image":"` + brokenImage + `"}}`)
	s.provideVolume()
	s.awaitDeployment("shop-cache")
	s.requests(time.Now())
	if _, err := s.deployment("shop-backend"); !apierrors.IsNotFound(err) {
		t.Errorf("the backend before the cache is ready: %v", err)
	}

	s.change(`{"cache":{"image":"redis:7-alpine"}}`)
	s.await(childv1alpha1.PhaseRunning)
}

// TestAppStackKeepsRunning: a database that is refused later does not take down the other components.
func TestAppStackKeepsRunning(t *testing.T) {
	t.Parallel()
	s := newStacks(t)
	s.run()
	before, err := s.deployment("shop-backend")
	if err != nil {
		t.Fatal(err)
	}

	s.setDatabaseReady(corev1.ConditionFalse)
	s.await(childv1alpha1.PhaseDegraded)
	s.setDatabaseReady(corev1.ConditionTrue)
	s.await(childv1alpha1.PhaseRunning)
	s.change(`{"database":{"storage":"5Gi"}}`)
	stack := s.await(childv1alpha1.PhaseFailed)

	assertContains(t, "message", message(stack), `spec.database: PostgreSQL "shop-db": spec.storage: 5Gi is less than the 10Gi`)
	s.requests(time.Now())
	after, err := s.deployment("shop-backend")
	if err != nil || after.UID != before.UID {
		t.Errorf("the backend is %v after a failure of the database: %v", after, err)
	}
	s.change(`{"database":{"storage":"10Gi"}}`)
	s.await(childv1alpha1.PhaseRunning)
}

// TestAppStackImageThatCannotBePulled: the condition names the field.
func TestAppStackImageThatCannotBePulled(t *testing.T) {
	t.Parallel()
	s := newStacks(t)
	s.create()
	s.change(`{"cache":{"enabled":false},"backend":{"image":"` + brokenImage + `"}}`)
	s.provideVolume()
	s.awaitDeployment("shop-backend")

	// The deadline is ten minutes by default.
	deadline := []byte(`{"spec":{"progressDeadlineSeconds":1}}`)
	_, err := shared.Client.AppsV1().Deployments(s.namespace).Patch(t.Context(), "shop-backend", types.MergePatchType, deadline,
		metav1.PatchOptions{FieldManager: "theirs"})
	if err != nil {
		t.Fatal(err)
	}

	assertContains(t, "message", message(s.await(childv1alpha1.PhaseFailed)), "check spec.backend.image, which must exist")
	s.change(`{"backend":{"image":"backend:2"}}`)
	s.await(childv1alpha1.PhaseRunning)
}

// TestAppStackImageThatAdmissionRefuses: the condition has the text of the policy, and names the component.
func TestAppStackImageThatAdmissionRefuses(t *testing.T) {
	t.Parallel()
	s := newStacks(t)
	s.run()
	forbidImageIn(t, s.namespace)

	s.change(`{"frontend":{"image":"` + forbiddenImage + `"}}`)
	stack := s.await(childv1alpha1.PhaseFailed)

	assertContains(t, "message", message(stack), `spec.frontend: Deployment "shop-frontend" was refused: `)
	assertContains(t, "message", message(stack), "this image is not welcome here")
	s.change(`{"frontend":{"image":"frontend:2"}}`)
	s.await(childv1alpha1.PhaseRunning)
}

// TestAppStackPodsThatAdmissionRefuses: the condition says why the pods of a component cannot be created.
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

func TestAppStackDriftIsCorrected(t *testing.T) {
	t.Parallel()
	s := newStacks(t)
	s.run()
	corrected := func(child string) map[string]int {
		return map[string]int{child: 1, "patch appstacks/status": 1}
	}
	tests := []struct {
		name     string
		change   func() error
		requests map[string]int
	}{
		{"a deleted Service", func() error {
			return shared.Client.CoreV1().Services(s.namespace).Delete(t.Context(), "shop-cache", metav1.DeleteOptions{})
		}, corrected("patch services")},
		{"labels of a PostgreSQL", func() error {
			return s.changeDatabase(func(d *databasev1.PostgreSQL) { d.Labels["app.example.com/stack"] = "theirs" })
		}, corrected("patch postgresqls")},
		{"an annotation of others", func() error {
			return s.changeDatabase(func(d *databasev1.PostgreSQL) { d.Annotations = map[string]string{"theirs": "1"} })
		}, map[string]int{}},
	}
	for _, test := range tests {
		s.requests(time.Now())
		begin := time.Now()

		if err := test.change(); err != nil {
			t.Fatal(err)
		}

		t.Log(test.name)
		assertRequests(t, func() map[string]int { return s.requests(begin) }, test.requests)
		s.await(childv1alpha1.PhaseRunning)
	}
}

// changeDatabase has another client change the PostgreSQL.
func (s *stacks) changeDatabase(change func(*databasev1.PostgreSQL)) error {
	databases := s.client.DatabaseV1().PostgreSQLs(s.namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		found, err := databases.Get(s.t.Context(), "shop-db", metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(found)
		_, err = databases.Update(s.t.Context(), found, metav1.UpdateOptions{FieldManager: "theirs"})
		return err
	})
}

func TestAppStackCacheIsSwitchedOff(t *testing.T) {
	t.Parallel()
	s := newStacks(t)
	s.run()

	s.change(`{"cache":{"enabled":false}}`)
	s.await(childv1alpha1.PhaseRunning)

	_, err1 := s.deployment("shop-cache")
	_, err2 := s.service("shop-cache")
	if !apierrors.IsNotFound(err1) || !apierrors.IsNotFound(err2) {
		t.Errorf("the cache is still there: Deployment %v, Service %v", err1, err2)
	}
}

func TestAppStackLeavesObjectsOfOthersAlone(t *testing.T) {
	t.Parallel()
	s := newStacks(t)
	theirs := deployment("shop-backend", "nginx:1.27-alpine")
	theirs, err := shared.Client.AppsV1().Deployments(s.namespace).Create(t.Context(), theirs, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	s.create()
	s.provideVolume()
	stack := s.await(childv1alpha1.PhaseFailed)

	if reason := meta.FindStatusCondition(stack.Status.Conditions, "Ready").Reason; reason != apimeta.ReasonOwnershipConflict {
		t.Errorf("reason is %s", reason)
	}
	s.requests(time.Now())
	if live, err := s.deployment("shop-backend"); err != nil || live.UID != theirs.UID || live.Generation != theirs.Generation {
		t.Errorf("the object of others was changed: %+v, %v", live, err)
	}
}

// TestAppStackExample applies the example without changes.
func TestAppStackExample(t *testing.T) {
	t.Parallel()
	s := newStacks(t)
	const file = "artifacts/kinds/appstack/example.yaml"
	objects, err := shared.Objects(file)
	if err != nil {
		t.Fatal(err)
	}

	if err := shared.ApplyFiles(t.Context(), s.namespace, file); err != nil {
		t.Fatal(err)
	}
	s.database = objects[0].GetName() + "-db"
	s.provideVolume()

	for _, object := range objects {
		shared.AwaitReady(t.Context(), t, s.namespace, object)
	}
}
