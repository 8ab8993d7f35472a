// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package appstack_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	appv1 "github.com/example/demoapp-controller/pkg/apis/app/v1"
	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/appstack"
	versionedfake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/test/expect"
)

// world is a controller of AppStacks between fake clientsets.
type world struct {
	*controllertest.World

	t      *testing.T
	kube   *controllertest.Kube
	client *versionedfake.Clientset
}

// inWorld runs a test in a world without an AppStack.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kube, client := controllertest.NewKube(), versionedfake.NewClientset()
		w := &world{World: controllertest.NewWorld(t, kube, client), t: t, kube: kube, client: client}
		w.start()
		test(w)
	})
}

// inRunningWorld runs a test in a world with the AppStack "shop", whose components are ready.
func inRunningWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	inWorld(t, func(w *world) {
		w.create()
		w.reportDatabase(ready)
		for _, name := range []string{"shop-cache", "shop-backend", "shop-frontend"} {
			w.reportPods(name, available)
		}
		w.Wait(time.Minute)
		w.Take()
		test(w)
	})
}

// start starts the controller, as a new process does.
func (w *world) start() {
	w.t.Helper()
	stacks, err1 := w.Informers("AppStacks", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(w.client, 0, externalversions.WithNamespace(namespace))
		return factory.App().V1().AppStacks().Informer(), nil
	})
	databases, err2 := w.Informers("PostgreSQLs", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(w.client, 0, externalversions.WithNamespace(namespace))
		return factory.Database().V1().PostgreSQLs().Informer(), nil
	})
	postgreSQL, err3 := child.WatchedBy(databases, databasev1.SchemeGroupVersion.WithKind("PostgreSQL"), w.client.DatabaseV1().PostgreSQLs)
	children, err4 := child.Builtin(w, w.kube, "Deployment", "Service")
	loop, err5 := appstack.New(w.client.AppV1(), child.NewSet(appstack.Kind, append(children, postgreSQL.KeepUntilChange("spec"))...), images.Table{}, "", kind.Deps{
		Informers: stacks, Recorder: w, Clock: clock.RealClock{}, ResyncPeriod: 10 * time.Hour,
	})
	expect.NoError(w.t, errors.Join(err1, err2, err3, err4, err5))
	w.Run(loop.Run)
}

// create creates the AppStack "shop", as admission defaults it.
func (w *world) create(change ...func(*appv1.AppStackSpec)) {
	w.t.Helper()
	spec := appv1.AppStackSpec{
		Database: appv1.AppStackDatabase{Version: "17", Storage: "10Gi"},
		Cache:    appv1.AppStackCache{Enabled: ptr.To(true), Image: "redis:7-alpine", Replicas: ptr.To[int32](1)},
		Backend:  appv1.AppStackComponent{Image: "backend:1", Replicas: ptr.To[int32](2), Port: 8080},
		Frontend: appv1.AppStackComponent{Image: "frontend:1", Replicas: ptr.To[int32](1), Port: 80},
	}
	for _, c := range change {
		c(&spec)
	}
	controllertest.Create(w.World, w.client.AppV1().AppStacks("ns").Create, &appv1.AppStack{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: spec})
}

func withoutCache(spec *appv1.AppStackSpec) { spec.Cache.Enabled = ptr.To(false) }

// change changes the spec of the AppStack.
func (w *world) change(change func(*appv1.AppStackSpec)) {
	w.t.Helper()
	found := w.stack()
	change(&found.Spec)
	controllertest.Update(w.World, w.client.AppV1().AppStacks("ns").Update, found)
}

func (w *world) stack() *appv1.AppStack {
	w.t.Helper()
	return controllertest.Get(w.World, w.client.AppV1().AppStacks("ns").Get, "shop")
}

func (w *world) deployment(name string) *appsv1.Deployment {
	w.t.Helper()
	return controllertest.Get(w.World, w.kube.AppsV1().Deployments("ns").Get, name)
}

// Conditions that a PostgreSQL reports.
var (
	ready    = metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Healthy"}
	starting = metav1.Condition{Type: "Reconciling", Status: metav1.ConditionTrue, Reason: "Progressing", Message: "servers start"}
	stalled  = metav1.Condition{Type: "Stalled", Status: metav1.ConditionTrue, Reason: databasev1.ReasonStorageShrinks, Message: "spec.storage may not shrink"}
)

// reportDatabase plays the controller of PostgreSQLs.
func (w *world) reportDatabase(condition metav1.Condition) {
	w.t.Helper()
	databases := w.client.DatabaseV1().PostgreSQLs("ns")
	w.Act(func() error {
		found, err := databases.Get(context.Background(), "shop-db", metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Status.ObservedGeneration, found.Status.Conditions = found.Generation, []metav1.Condition{condition}
		_, err = databases.UpdateStatus(context.Background(), found, metav1.UpdateOptions{})
		return err
	})
}

// Conditions that a Deployment reports.
var (
	available   = appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}
	unavailable = appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse}
	// imageMissing is the condition after a wrong image, when the progress deadline is over.
	imageMissing = appsv1.DeploymentCondition{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "no progress",
	}
)

// reportPods plays the controller of Deployments.
func (w *world) reportPods(name string, condition appsv1.DeploymentCondition) {
	w.t.Helper()
	found := w.deployment(name)
	replicas := *found.Spec.Replicas
	found.Status = appsv1.DeploymentStatus{
		ObservedGeneration: found.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
		Conditions: []appsv1.DeploymentCondition{condition},
	}
	controllertest.Update(w.World, w.kube.AppsV1().Deployments("ns").UpdateStatus, found)
}

// ready is the condition Ready of the AppStack.
func (w *world) ready() metav1.Condition {
	w.t.Helper()
	found := w.stack()
	return w.Ready(found.Generation, found.Status.ObservedGeneration, found.Status.Conditions)
}

// component is the status of a component.
func (w *world) component(name string) childv1alpha1.ComponentStatus {
	w.t.Helper()
	components := w.stack().Status.Components
	i := slices.IndexFunc(components, func(c childv1alpha1.ComponentStatus) bool { return c.Name == name })
	if i < 0 {
		w.t.Fatalf("components are %+v, without %s", components, name)
	}
	return components[i]
}

const status = "patch appstacks/shop status"

// TestRequestBudget holds how many requests an AppStack costs in its life. Each component is
// ready within a second, so the statuses between the first and the last are not written.
func TestRequestBudget(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create()
		expect.Equal(t, "requests of the creation", []string{"patch postgresqls/shop-db", status, "event Normal Created"}, w.Take())
		w.reportDatabase(ready)
		expect.Equal(t, "requests when the database is ready", []string{"patch deployments/shop-cache", "patch services/shop-cache"}, w.Take())
		w.reportPods("shop-cache", available)
		expect.Equal(t, "requests when the cache is ready", []string{"patch deployments/shop-backend", "patch services/shop-backend"}, w.Take())
		w.reportPods("shop-backend", available)
		expect.Equal(t, "requests when the backend is ready", []string{"patch deployments/shop-frontend", "patch services/shop-frontend"}, w.Take())
		w.reportPods("shop-frontend", available)
		expect.Equal(t, "requests when the frontend is ready", []string{status, "event Normal Healthy"}, w.Take())
		w.Wait(9 * time.Hour)
		expect.Equal(t, "requests at rest", []string(nil), w.Take())
		w.Stop()
		w.start()
		expect.Equal(t, "requests of a restart", []string(nil), w.Take())
		controllertest.Delete(w.World, w.kube.CoreV1().Services("ns").Delete, "shop-cache")
		expect.Equal(t, "requests of a deleted child", []string{"patch services/shop-cache", status, "event Normal DriftCorrected"}, w.Take())
	})
}

// TestSlowComponentsAreReported: the status names each component that starts, with one write.
func TestSlowComponentsAreReported(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create()
		w.Take()
		w.Wait(time.Minute)

		w.reportDatabase(starting)
		w.Wait(time.Minute)
		expect.Equal(t, "requests while the database starts", []string{status}, w.Take())
		expect.Contains(t, "message", w.ready().Message, `spec.database: PostgreSQL "shop-db": servers start; not started yet: cache, backend, frontend`)

		w.reportDatabase(ready)
		w.Wait(time.Minute)
		expect.Equal(t, "requests when the database is ready",
			[]string{"patch deployments/shop-cache", "patch services/shop-cache", status}, w.Take())
		expect.Equal(t, "components", []childv1alpha1.ComponentStatus{
			{
				Name: "database", Ready: true, Reason: "Healthy",
				Endpoint: "shop-db.ns.svc.cluster.local:5432",
			},
			{
				Name: "cache", Reason: "Progressing", Endpoint: "shop-cache.ns.svc.cluster.local:6379",
				Message: `spec.cache: Deployment "shop-cache": Replicas: 0/1`,
			},
			{
				Name: "backend", Reason: "WaitingForComponent",
				Message: `Waits for cache: Deployment "shop-cache": Replicas: 0/1`,
			},
			{
				Name: "frontend", Reason: "WaitingForComponent",
				Message: `Waits for cache: Deployment "shop-cache": Replicas: 0/1`,
			},
		}, w.stack().Status.Components)
		expect.Equal(t, "phase", "Deploying", w.stack().Status.Phase)
	})
}

func TestNothingStartsBeforeTheDatabaseIsReady(t *testing.T) {
	tests := map[string]metav1.Condition{"starting": starting, "stalled": stalled}
	for name, condition := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.create()

				w.reportDatabase(condition)
				w.Wait(time.Hour)

				for _, request := range w.Take() {
					if strings.Contains(request, "deployments") || strings.Contains(request, "services") {
						t.Errorf("request %q before the database is ready", request)
					}
				}
				expect.Equal(t, "reason of the backend", "WaitingForComponent", w.component("backend").Reason)
			})
		})
	}
}

// TestUnreadyDatabaseDoesNotStopOthers: a component that becomes unhealthy later does not take
// down those after it, also across a restart and a change of the spec.
func TestUnreadyDatabaseDoesNotStopOthers(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		w.reportDatabase(starting)
		w.Stop()
		w.start()
		w.Wait(time.Hour)

		expect.Equal(t, "requests", []string{status, "event Warning Degraded"}, w.Take())
		expect.Equal(t, "phase", "Degraded", w.stack().Status.Phase)
		expect.Contains(t, "message", w.ready().Message, `spec.database: PostgreSQL "shop-db": servers start`)
		expect.Equal(t, "the frontend is ready", true, w.component("frontend").Ready)

		w.change(func(spec *appv1.AppStackSpec) { spec.Frontend.Image = "frontend:2" })
		expect.Equal(t, "image of the frontend", "frontend:2", w.deployment("shop-frontend").Spec.Template.Spec.Containers[0].Image)
		w.Take()

		w.reportDatabase(ready)
		w.reportPods("shop-frontend", available)
		w.Wait(time.Minute)
		expect.Equal(t, "phase afterwards", "Running", w.stack().Status.Phase)
	})
}

func TestRefusedStorageNamesTheField(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		w.change(func(spec *appv1.AppStackSpec) { spec.Database.Storage = "5Gi" })
		w.reportDatabase(stalled)

		expect.Equal(t, "reason", apimeta.ReasonUnhealthy, w.ready().Reason)
		expect.Equal(t, "message", `spec.database: PostgreSQL "shop-db": spec.storage may not shrink: `+
			"spec.database.storage requests 5Gi, and volumes never shrink: set spec.database.storage to their size or more", w.ready().Message)
		expect.Equal(t, "phase", "Failed", w.stack().Status.Phase)
	})
}

func TestUnpullableImage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(withoutCache)
		w.reportDatabase(ready)
		w.reportPods("shop-backend", imageMissing)

		expect.Contains(t, "message", w.ready().Message, "check spec.backend.image, which must exist")
		expect.Equal(t, "reason of the backend", apimeta.ReasonUnhealthy, w.component("backend").Reason)
		expect.Contains(t, "message of the frontend", w.component("frontend").Message, "Waits for backend: ")
		expect.Equal(t, "phase", "Failed", w.stack().Status.Phase)

		w.change(func(spec *appv1.AppStackSpec) { spec.Backend.Image = "backend:2" })
		w.reportPods("shop-backend", available)
		w.reportPods("shop-frontend", available)
		expect.Equal(t, "phase after a better image", "Running", w.stack().Status.Phase)
	})
}

func TestImageRefusedByAdmission(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Refuse(func(request string) error {
			if request != "patch deployments/shop-frontend" {
				return nil
			}
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "shop-frontend",
				field.ErrorList{field.Forbidden(field.NewPath("spec", "template", "spec", "containers").Index(0).Child("image"), "registry is not allowed")})
		})

		w.create(withoutCache)
		w.reportDatabase(ready)
		w.reportPods("shop-backend", available)

		expect.Equal(t, "reason", apimeta.ReasonRefused, w.ready().Reason)
		expect.Equal(t, "message", `spec.frontend: Deployment "shop-frontend" was refused: spec.frontend.image: Forbidden: registry is not allowed: `+
			"check spec.frontend.image, which must exist, be allowed, run as a user other than root, and listen on port 80",
			w.ready().Message)
		expect.Equal(t, "the backend is ready", true, w.component("backend").Ready)
	})
}

func TestUnavailablePodsDegrade(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		w.reportPods("shop-backend", unavailable)

		expect.Equal(t, "reason", childv1alpha1.ReasonDegraded, w.ready().Reason)
		w.reportPods("shop-backend", available)
		expect.Equal(t, "reason afterwards", apimeta.ReasonHealthy, w.ready().Reason)
	})
}

func TestDisabledCache(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		w.change(withoutCache)

		expect.Equal(t, "requests", []string{
			"delete deployments/shop-cache", "delete services/shop-cache", status, "patch deployments/shop-backend",
		}, slices.Sorted(slices.Values(w.Take())))
		for _, variable := range w.deployment("shop-backend").Spec.Template.Spec.Containers[0].Env {
			if strings.HasPrefix(variable.Name, "CACHE_") {
				t.Errorf("the backend still has %s", variable.Name)
			}
		}
		expect.Equal(t, "components", 3, len(w.stack().Status.Components))

		w.change(func(spec *appv1.AppStackSpec) { spec.Cache.Enabled = ptr.To(true) })
		w.reportPods("shop-cache", available)
		w.reportPods("shop-backend", available)
		expect.Equal(t, "phase when it is on again", "Running", w.stack().Status.Phase)
	})
}

func TestConflictingPostgreSQLStalls(t *testing.T) {
	inWorld(t, func(w *world) {
		controllertest.Create(w.World, w.client.DatabaseV1().PostgreSQLs("ns").Create, &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: "shop-db"}})
		w.reportDatabase(ready)

		w.create()

		expect.Equal(t, "reason", apimeta.ReasonOwnershipConflict, w.ready().Reason)
		expect.Equal(t, "requests", []string{status, "event Warning OwnershipConflict"}, w.Take())
		expect.Contains(t, "message of the backend", w.component("backend").Message, "Waits for database")
	})
}
