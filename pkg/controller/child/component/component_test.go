// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package component_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/test/expect"
)

// world is an owner whose components are Deployments, with fake clientsets. The owner is a Secret,
// because its kind does not matter.
type world struct {
	*controllertest.World

	t      *testing.T
	kube   *controllertest.Kube
	set    *child.Set
	owner  *corev1.Secret
	status childv1alpha1.ChildrenStatus
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kube := controllertest.NewKube()
		w := &world{
			World: controllertest.NewWorld(t, kube), t: t, kube: kube,
			owner: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "shop", UID: "owner"}},
		}
		w.start()
		test(w)
	})
}

// start starts the caches, as a new process does.
func (w *world) start() {
	w.t.Helper()
	kinds, err := child.Builtin(w, w.kube, "Deployment", "ConfigMap")
	expect.NoError(w.t, err)
	w.set = child.NewSet(corev1.SchemeGroupVersion.WithKind("Secret"), kinds...)
	w.Run(func(stop, _ context.Context) error {
		<-stop.Done()
		return nil
	})
}

// ensure makes a pass over the components of these names and returns the requests.
func (w *world) ensure(names ...string) []string {
	w.t.Helper()
	var components []component.Component
	for _, name := range names {
		components = append(components, component.Component{Name: name, Field: "spec." + name, Children: []child.Desired{deployment(name)}})
	}
	outcome := component.Ensure(w.t.Context(), w.set, w.owner, &w.status, time.Now(), components...)
	expect.NoError(w.t, outcome.Err)
	w.Settle()
	return w.Take()
}

// report plays the controller of the Deployments.
func (w *world) report(name string, condition appsv1.DeploymentCondition) {
	w.t.Helper()
	w.Act(func() error {
		deployments := w.kube.AppsV1().Deployments("ns")
		found, err := deployments.Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Status = appsv1.DeploymentStatus{
			ObservedGeneration: found.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{condition},
		}
		_, err = deployments.UpdateStatus(context.Background(), found, metav1.UpdateOptions{})
		return err
	})
}

func (w *world) ready(name string) {
	w.t.Helper()
	w.report(name, appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue})
}

func (w *world) unready(name string) {
	w.t.Helper()
	w.report(name, appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse})
}

func deployment(name string) child.Desired {
	labels := map[string]string{"app": name}
	return appsv1ac.Deployment(name, "").WithSpec(appsv1ac.DeploymentSpec().WithReplicas(1).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).
			WithSpec(corev1ac.PodSpec().WithContainers(corev1ac.Container().WithName("main").WithImage("nginx:1")))))
}

func TestComponentsStartInOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		names := []string{"database", "cache", "backend"}

		expect.Equal(t, "requests at first", []string{"patch deployments/database"}, w.ensure(names...))
		expect.Equal(t, "requests while the database is not ready", []string(nil), w.ensure(names...))
		w.ready("database")
		expect.Equal(t, "requests when it is", []string{"patch deployments/cache"}, w.ensure(names...))
		w.ready("cache")
		expect.Equal(t, "requests when the cache is ready", []string{"patch deployments/backend"}, w.ensure(names...))
		w.ready("backend")
		expect.Equal(t, "requests at rest", []string(nil), w.ensure(names...))
	})
}

func TestStartedComponentsStay(t *testing.T) {
	tests := map[string]func(w *world){
		"the database is unready":              func(*world) {},
		"a restart":                            func(w *world) { w.Stop(); w.start() },
		"a restart before the status is known": func(w *world) { w.Stop(); w.start(); w.status.Applied = w.status.Applied[:1] },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.ensure("database", "backend")
				w.ready("database")
				w.ensure("database", "backend")
				w.unready("database")

				change(w)
				w.ensure("database", "backend")

				_, err := w.kube.AppsV1().Deployments("ns").Get(t.Context(), "backend", metav1.GetOptions{})
				expect.NoError(t, err)
			})
		})
	}
}

func TestDisabledComponent(t *testing.T) {
	inWorld(t, func(w *world) {
		w.ensure("cache", "backend")
		w.ready("cache")
		w.ensure("cache", "backend")

		expect.Equal(t, "requests without the cache", []string{"delete deployments/cache"}, w.ensure("backend"))
		expect.Equal(t, "requests when it is switched on again", []string{"patch deployments/cache"}, w.ensure("cache", "backend"))
	})
}

// TestHealthyChildrenStartNextComponent: components whose children are healthy at once start in one
// pass.
func TestHealthyChildrenStartNextComponent(t *testing.T) {
	inWorld(t, func(w *world) {
		// The list of a fake clientset has no resource version. The cache gets one from an event.
		w.Act(func() error {
			_, err := w.kube.CoreV1().ConfigMaps("ns").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: "other", Labels: map[string]string{child.ManagedByLabel: child.FieldManager},
			}}, metav1.CreateOptions{})
			return err
		})

		outcome := component.Ensure(t.Context(), w.set, w.owner, &w.status, time.Now(),
			component.Component{Name: "settings", Children: []child.Desired{corev1ac.ConfigMap("settings", "")}},
			component.Component{Name: "dashboard", Children: []child.Desired{corev1ac.ConfigMap("dashboard", "")}},
		)

		expect.NoError(t, outcome.Err)
		expect.Equal(t, "requests", []string{"patch configmaps/settings", "patch configmaps/dashboard"}, w.Take())
		expect.Equal(t, "ready", []bool{true, true}, []bool{outcome.Components[0].Ready, outcome.Components[1].Ready})
	})
}

func TestUnwritableComponentBlocksNext(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Refuse(func(request string) error {
			if request == "patch deployments/cache" {
				return errors.New("the server is down")
			}
			return nil
		})

		outcome := component.Ensure(t.Context(), w.set, w.owner, &w.status, time.Now(),
			component.Component{Name: "cache", Field: "spec.cache", Children: []child.Desired{deployment("cache")}},
			component.Component{Name: "backend", Field: "spec.backend", Children: []child.Desired{deployment("backend")}},
		)

		expect.Equal(t, "requests", []string{"patch deployments/cache"}, w.Take())
		expect.Equal(t, "components", []childv1alpha1.ComponentStatus{
			{Name: "cache", Reason: "ApplyFailed", Message: `spec.cache: Deployment "cache": the server is down`},
			{Name: "backend", Reason: "WaitingForComponent", Message: `Waits for cache: Deployment "cache": the server is down`},
		}, outcome.Components)
	})
}

// pass is the part of kind.Pass that Report needs.
type pass struct{ conditions []metav1.Condition }

func (p *pass) Conditions() status.Editor { return status.For(&p.conditions, 1, time.Now()) }

func (*pass) RequeueAfter(time.Duration) {}

// TestReadyIgnoresHealthOfComponent: Ready ignores the health of a component with IgnoreHealth,
// but not failed writes of its children.
func TestReadyIgnoresHealthOfComponent(t *testing.T) {
	tests := map[string]struct {
		refusal         error
		status          metav1.ConditionStatus
		reason, message string
	}{
		"whose children are not healthy": {nil, metav1.ConditionTrue, "Healthy", "All 1 components are ready"},
		"whose children cannot be written": {
			errors.New("the server is down"), metav1.ConditionFalse, "ApplyFailed", `Deployment "backup": the server is down`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.Refuse(func(request string) error {
					if request == "patch deployments/backup" {
						return test.refusal
					}
					return nil
				})

				outcome := component.Ensure(w.t.Context(), w.set, w.owner, &w.status, time.Now(),
					component.Component{Name: "settings", Field: "spec.settings", Children: []child.Desired{corev1ac.ConfigMap("settings", "")}},
					component.Component{
						Name: "backup", Field: "spec.backup", After: []string{}, IgnoreHealth: true, Children: []child.Desired{deployment("backup")},
					},
				)
				p := &pass{}
				outcome.Report(p)

				ready, _ := p.Conditions().Current("Ready")
				expect.Equal(w.t, "status", test.status, ready.Status)
				expect.Equal(w.t, "reason", test.reason, ready.Reason)
				expect.Equal(w.t, "message", test.message, ready.Message)
				expect.Equal(w.t, "the component is ready", false, outcome.Of("backup").Ready)
			})
		})
	}
}
