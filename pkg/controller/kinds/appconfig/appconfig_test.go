// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package appconfig_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	configv1 "github.com/example/demoapp-controller/pkg/apis/config/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/appconfig"
	"github.com/example/demoapp-controller/pkg/controller/kinds/appconfig/reload"
	versionedfake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/test/expect"
)

// world is a controller of AppConfigs between fake clientsets.
type world struct {
	*controllertest.World

	t      *testing.T
	kube   *controllertest.Kube
	client *versionedfake.Clientset
}

// inWorld runs a test in a world with the AppConfig "shop" of the application "shop".
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	inEmptyWorld(t, func(w *world) {
		w.create("shop")
		w.Take()
		test(w)
	})
}

func inEmptyWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kube, client := controllertest.NewKube(), versionedfake.NewClientset()
		w := &world{World: controllertest.NewWorld(t, kube, client), t: t, kube: kube, client: client}
		w.start()
		test(w)
	})
}

// start starts the controller, as a new process does.
func (w *world) start() {
	w.t.Helper()
	informers, err1 := w.Informers("appconfigs", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(w.client, 0, externalversions.WithNamespace(namespace))
		return factory.Config().V1().AppConfigs().Informer(), nil
	})
	children, err2 := child.Builtin(w, w.kube, "ConfigMap")
	workloads, err3 := reload.NewWorkloads(w, w.kube, appconfig.Reloads)
	loop, err4 := appconfig.New(w.client.ConfigV1(), child.NewSet(appconfig.Kind, children[0].KeepUntilChange("of a test", "data")), workloads, kind.Deps{
		Informers: informers, Recorder: w, Clock: clock.RealClock{}, ResyncPeriod: 10 * time.Hour,
	})
	expect.NoError(w.t, errors.Join(err1, err2, err3, err4))
	w.Run(loop.Run)
}

// create creates an AppConfig of the application "shop".
func (w *world) create(name string) {
	w.t.Helper()
	controllertest.Create(w.World, w.client.ConfigV1().AppConfigs("ns").Create, &configv1.AppConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: configv1.AppConfigSpec{
			Application: "shop", Environment: "prod",
			Config: map[string]configv1.Template{"app.properties": "host={{ .Values.db.host }}:{{ .Values.db.port }}"},
			Values: raw(`{"db": {"host": "localhost", "port": 5432}}`),
			Environments: configv1.Environments{
				Dev: raw(`{"db": {"host": "dev.example.com"}}`), Prod: raw(`{"db": {"host": "db.example.com"}}`),
			},
		},
	})
}

func raw(json string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(json)} }

// change changes the spec of an AppConfig.
func (w *world) change(name string, change func(*configv1.AppConfigSpec)) {
	w.t.Helper()
	found := w.config(name)
	change(&found.Spec)
	controllertest.Update(w.World, w.client.ConfigV1().AppConfigs("ns").Update, found)
}

func (w *world) changeHost(host string) {
	w.t.Helper()
	w.change("shop", func(spec *configv1.AppConfigSpec) { spec.Environments.Prod = raw(`{"db": {"host": "` + host + `"}}`) })
}

func (w *world) config(name string) *configv1.AppConfig {
	w.t.Helper()
	return controllertest.Get(w.World, w.client.ConfigV1().AppConfigs("ns").Get, name)
}

// configMap returns a ConfigMap; nil for none.
func (w *world) configMap(name string) *corev1.ConfigMap {
	w.t.Helper()
	var found *corev1.ConfigMap
	w.Act(func() (err error) {
		found, err = w.kube.CoreV1().ConfigMaps("ns").Get(context.Background(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			found, err = nil, nil
		}
		return err
	})
	return found
}

// rollOut plays the Deployment's controller when all pods run and are ready.
func (w *world) rollOut(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.report(name, func(d *appsv1.Deployment) { d.Status = controllertest.RolledOut(d) })
	}
}

func (w *world) report(name string, change func(*appsv1.Deployment)) {
	w.t.Helper()
	w.Act(func() error {
		found, err := w.kube.AppsV1().Deployments("ns").Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(found)
		_, err = w.kube.AppsV1().Deployments("ns").UpdateStatus(context.Background(), found, metav1.UpdateOptions{})
		return err
	})
}

// deploy creates a Deployment that uses the ConfigMap "shop-config".
func (w *world) deploy(name string) {
	w.t.Helper()
	w.Act(func() error {
		_, err := w.kube.AppsV1().Deployments("ns").Create(context.Background(), deployment(name), metav1.CreateOptions{})
		return err
	})
}

func deployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "shop-config"},
			}}},
		}}}}},
	}
}

// annotation returns the hash in the pod template of a Deployment.
func (w *world) annotation(name string) string {
	w.t.Helper()
	var found *appsv1.Deployment
	w.Act(func() (err error) {
		found, err = w.kube.AppsV1().Deployments("ns").Get(context.Background(), name, metav1.GetOptions{})
		return err
	})
	return found.Spec.Template.Annotations[configv1.AnnotationHash+"shop"]
}

// ready is the condition Ready of an AppConfig.
func (w *world) ready(name string) metav1.Condition {
	w.t.Helper()
	found := w.config(name)
	return w.Ready(found.Generation, found.Status.ObservedGeneration, found.Status.Conditions)
}

// TestRequestBudget holds how many requests an AppConfig costs in its life. Its child is ready at
// once, so its status is written once.
func TestRequestBudget(t *testing.T) {
	inEmptyWorld(t, func(w *world) {
		w.create("shop")
		expect.Equal(t, "requests of the creation", []string{
			"patch configmaps/shop-config", "patch appconfigs/shop status", "event Normal Created", "event Normal Healthy",
		}, w.Take())
		w.Wait(9 * time.Hour)
		expect.Equal(t, "requests at rest", []string(nil), w.Take())
		w.deploy("web")
		expect.Equal(t, "requests of a workload that starts with the content", []string(nil), w.Take())
		w.Stop()
		w.start()
		expect.Equal(t, "requests of a restart", []string(nil), w.Take())
		w.changeHost("other.example.com")
		// The first request of a new process confirms the AppConfig.
		expect.Equal(t, "requests of new content", []string{
			"patch appconfigs/shop status", "patch configmaps/shop-config", "patch deployments/web", "patch appconfigs/shop status", "event Normal Reloaded",
		}, w.Take())
		w.rollOut("web")
		expect.Equal(t, "requests of the end of the reload", []string{"patch appconfigs/shop status", "event Normal Healthy"}, w.Take())
		w.report("web", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })
		expect.Equal(t, "requests when pods fail later", []string(nil), w.Take())
		w.Stop()
		w.start()
		expect.Equal(t, "requests of a restart after a reload", []string(nil), w.Take())
		w.change("shop", func(spec *configv1.AppConfigSpec) { spec.Environments.Dev = nil })
		expect.Equal(t, "requests of a change of another environment", []string{"patch appconfigs/shop status", "event Normal Healthy"}, w.Take())
	})
}

func TestContentOfTheConfigMap(t *testing.T) {
	tests := map[string]struct {
		change func(*configv1.AppConfigSpec)
		want   string
	}{
		"the environment of the spec":  {func(*configv1.AppConfigSpec) {}, "host=db.example.com:5432"},
		"another environment":          {func(s *configv1.AppConfigSpec) { s.Environment = "dev" }, "host=dev.example.com:5432"},
		"an environment without":       {func(s *configv1.AppConfigSpec) { s.Environment = "staging" }, "host=localhost:5432"},
		"no values":                    {func(s *configv1.AppConfigSpec) { s.Values, s.Config["app.properties"] = nil, "{{ .Values.db.host }}" }, "db.example.com"},
		"another value for a replaced": {func(s *configv1.AppConfigSpec) { s.Environments.Prod = raw(`{"db": {"port": 1}}`) }, "host=localhost:1"},
		"the fields": {func(s *configv1.AppConfigSpec) {
			s.Config["app.properties"] = "{{ .Application }} {{ .Environment }} {{ .Namespace }}"
		}, "shop prod ns"},
		"a removed value": {func(s *configv1.AppConfigSpec) {
			s.Environments.Prod = raw(`{"db": {"port": null}}`)
			s.Config["app.properties"] = `{{ index .Values.db "port" | default "none" }}`
		}, "none"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.change("shop", test.change)

				expect.Equal(t, "data", map[string]string{"app.properties": test.want}, w.configMap("shop-config").Data)
				expect.Equal(t, "Ready", apimeta.ReasonHealthy, w.ready("shop").Reason)
			})
		})
	}
}

func TestStatus(t *testing.T) {
	inWorld(t, func(w *world) {
		status := w.config("shop").Status
		rendered := meta.FindStatusCondition(status.Conditions, configv1.ConditionRendered)

		expect.Equal(t, "Rendered", "1 templates were rendered for prod", rendered.Message)
		expect.Equal(t, "length of the hash", 32, len(status.ConfigHash))
		expect.Equal(t, "time of the last change", (*metav1.Time)(nil), status.LastChangeTime)
		w.changeHost("other.example.com")
		after := w.config("shop").Status
		if after.ConfigHash == status.ConfigHash || after.LastChangeTime == nil {
			t.Errorf("status after a change is %+v", after)
		}
	})
}

func TestInvalidSpecKeepsContent(t *testing.T) {
	tests := map[string]struct {
		change func(*configv1.AppConfigSpec)
		want   string
	}{
		"a template": {
			func(s *configv1.AppConfigSpec) { s.Config["logback.xml"] = "<a>\n{{ .Values.none }}" },
			`spec.config.logback.xml: line 2: .Values.none is not set: add it to the values, or use index .Values "none" with default`,
		},
		"an endless template": {
			func(s *configv1.AppConfigSpec) { s.Config["app.properties"] = "{{ range 9000000000 }}{{ end }}" },
			"spec.config.app.properties: the templates take more than 100000 steps: use fewer or shorter loops",
		},
		"a large text": {
			func(s *configv1.AppConfigSpec) {
				s.Config["app.properties"] = configv1.Template("{{ range 9000 }}" + strings.Repeat("x", 200) + "{{ end }}")
			},
			"spec.config.app.properties: the rendered config has more than 1000000 bytes as JSON: use shorter texts, or two configs",
		},
		"large values": {
			func(s *configv1.AppConfigSpec) { s.Values = raw(`{"a": "` + strings.Repeat("x", 256<<10) + `"}`) },
			"spec.values: has 262152 bytes, more than the limit of 262144: use fewer or shorter values",
		},
		"values of an environment": {
			func(s *configv1.AppConfigSpec) { s.Environments.Prod = raw(`["hunter2"]`) },
			"spec.environments.prod: must be an object, nested at most 10000 deep, with numbers of at most 64 bits",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.deploy("web")

				w.change("shop", test.change)

				expect.Equal(t, "requests", []string{"patch appconfigs/shop status", "event Warning RenderFailed"}, w.Take())
				found := w.config("shop").Status.Conditions
				for _, condition := range []string{configv1.ConditionRendered, "Ready"} {
					got := meta.FindStatusCondition(found, condition)
					expect.Equal(t, condition, [2]string{configv1.ReasonRenderFailed, test.want}, [2]string{got.Reason, got.Message})
				}
				expect.Equal(t, "Stalled", true, meta.IsStatusConditionTrue(found, "Stalled"))
				expect.Equal(t, "data", map[string]string{"app.properties": "host=db.example.com:5432"}, w.configMap("shop-config").Data)
			})
		})
	}
}

func TestDriftIsCorrected(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy("web")
		controllertest.Delete(w.World, w.kube.CoreV1().ConfigMaps("ns").Delete, "shop-config")

		expect.Equal(t, "requests", []string{"patch configmaps/shop-config", "patch appconfigs/shop status", "event Normal DriftCorrected"}, w.Take())
		expect.Equal(t, "annotation", "", w.annotation("web"))
	})
}

func TestNewContentRollsWorkloads(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy("web")
		w.deploy("worker")

		w.changeHost("other.example.com")

		status := w.config("shop").Status
		expect.Equal(t, "reloaded", []string{"Deployment/web", "Deployment/worker"}, status.Reloaded)
		expect.Equal(t, "annotations", [2]string{status.ConfigHash, status.ConfigHash}, [2]string{w.annotation("web"), w.annotation("worker")})
	})
}

// TestReadyFollowsWorkloads: Ready says when the pods have the content, and when they fail with it.
func TestReadyFollowsWorkloads(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy("web")
		reloaded := func() string {
			found := meta.FindStatusCondition(w.config("shop").Status.Conditions, configv1.ConditionReloaded)
			return fmt.Sprintf("%s %s; Ready %s", found.Status, found.Reason, w.ready("shop").Reason)
		}
		expect.Equal(t, "before new content", "True Reloaded; Ready Healthy", reloaded())

		w.changeHost("other.example.com")
		expect.Equal(t, "while pods are replaced", "False Reloading; Ready Progressing", reloaded())
		w.report("web", func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded",
			}}
		})
		expect.Equal(t, "pods that fail", "False WorkloadFailed; Ready WorkloadFailed", reloaded())
		w.rollOut("web")
		expect.Equal(t, "pods with the content", "True Reloaded; Ready Healthy", reloaded())
	})
}

// TestUpgradeRollsNothing: an operator that rolled only workloads with a label has left content, and its upgrade rolls no further
// workloads.
func TestUpgradeRollsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.changeHost("other.example.com")
		w.Stop()
		before := w.config("shop")
		meta.RemoveStatusCondition(&before.Status.Conditions, configv1.ConditionReloaded)
		controllertest.Update(w.World, w.client.ConfigV1().AppConfigs("ns").UpdateStatus, before)
		older := deployment("older")
		older.UID, older.ResourceVersion = "older", "999"
		older.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		expect.NoError(t, w.kube.Tracker().Add(older))
		w.Take()

		w.start()

		expect.Equal(t, "requests of the upgrade", []string{"patch appconfigs/shop status"}, w.Take())
		w.changeHost("third.example.com")
		expect.Equal(t, "reloaded by new content", []string{"Deployment/older"}, w.config("shop").Status.Reloaded)
	})
}

func TestNewWorkloads(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy("older")
		w.changeHost("other.example.com")
		w.rollOut("older")
		w.Wait(time.Minute)
		w.Take()

		w.deploy("younger")

		expect.Equal(t, "requests for a workload that is younger than the content", []string(nil), w.Take())
		w.changeHost("third.example.com")
		expect.Equal(t, "reloaded", []string{"Deployment/older", "Deployment/younger"}, w.config("shop").Status.Reloaded)
	})
}

// TestWorkloadCreatedDuringApply: its pods may have started with the earlier content.
func TestWorkloadCreatedDuringApply(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kube.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			time.Sleep(30 * time.Second)
			web := deployment("web")
			web.UID, web.ResourceVersion, web.CreationTimestamp = "web", "999", metav1.Now().Rfc3339Copy()
			err := w.kube.Tracker().Create(appsv1.SchemeGroupVersion.WithResource("deployments"), web, "ns")
			time.Sleep(30 * time.Second)
			return false, nil, err
		})

		w.changeHost("other.example.com")
		w.Wait(2 * time.Minute)

		expect.Equal(t, "annotation", w.config("shop").Status.ConfigHash, w.annotation("web"))
	})
}

// TestRemovedAnnotationRollsNothing: a client that replaces the workload does not start a contest.
func TestRemovedAnnotationRollsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy("web")
		w.changeHost("other.example.com")
		w.rollOut("web")
		w.Take()

		w.Act(func() error {
			found, err := w.kube.AppsV1().Deployments("ns").Get(t.Context(), "web", metav1.GetOptions{})
			expect.NoError(t, err)
			found.Spec.Template.Annotations = nil
			_, err = w.kube.AppsV1().Deployments("ns").Update(t.Context(), found, metav1.UpdateOptions{FieldManager: "theirs"})
			return err
		})
		w.Stop()
		w.start()

		expect.Equal(t, "requests", []string(nil), w.Take())
	})
}

func TestUnavailableReloadIsNotRefusal(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy("web")
		w.Refuse(func(request string) error {
			if request == "patch deployments/web" {
				return apierrors.NewServiceUnavailable("the API server is busy")
			}
			return nil
		})

		w.changeHost("other.example.com")

		expect.Equal(t, "message", `Some workloads are not rolled yet: Deployment "web": the API server is busy`, w.ready("shop").Message)
	})
}

// TestContentWaitsForTheDeletedConfigMap: the new content is neither recorded nor rolled before it
// is in a ConfigMap.
func TestContentWaitsForTheDeletedConfigMap(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy("web")
		w.Act(func() error {
			found, err := w.kube.CoreV1().ConfigMaps("ns").Get(t.Context(), "shop-config", metav1.GetOptions{})
			expect.NoError(t, err)
			found.Finalizers = []string{"example.com/kept"}
			_, err = w.kube.CoreV1().ConfigMaps("ns").Update(t.Context(), found, metav1.UpdateOptions{FieldManager: "theirs"})
			expect.NoError(t, err)
			return w.kube.CoreV1().ConfigMaps("ns").Delete(t.Context(), "shop-config", metav1.DeleteOptions{})
		})
		before := w.config("shop").Status
		w.Take()

		w.changeHost("other.example.com")

		expect.Equal(t, "requests", []string{"patch appconfigs/shop status", "event Warning WaitingForDeletion"}, w.Take())
		expect.Equal(t, "reason", childv1alpha1.ReasonWaitingForDeletion, w.ready("shop").Reason)
		expect.Equal(t, "hash", before.ConfigHash, w.config("shop").Status.ConfigHash)
	})
}

func TestFailedReloadIsRetried(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy("web")
		w.deploy("worker")
		w.Refuse(func(request string) error {
			if request == "patch deployments/web" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "web", errors.New("policy"))
			}
			return nil
		})

		w.changeHost("other.example.com")

		ready := w.ready("shop")
		expect.Equal(t, "reason", configv1.ReasonReloadFailed, ready.Reason)
		expect.Equal(t, "message", `Some workloads are not rolled yet: Deployment "web" was refused: deployments "web" is forbidden: policy`, ready.Message)
		expect.Equal(t, "reloaded", []string{"Deployment/worker"}, w.config("shop").Status.Reloaded)
		w.Refuse(nil)
		w.Wait(time.Minute)
		w.rollOut("web", "worker")
		expect.Equal(t, "reloaded after a retry", []string{"Deployment/web", "Deployment/worker"}, w.config("shop").Status.Reloaded)
		expect.Equal(t, "Ready", apimeta.ReasonHealthy, w.ready("shop").Reason)
	})
}

// TestReplacedWorkloadIsNotRefusal: the cache is behind when a workload is deleted and created
// again.
func TestReplacedWorkloadIsNotRefusal(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deploy("web")
		w.deploy("worker")
		w.Refuse(func(request string) error {
			if request == "patch deployments/web" {
				return apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind(), "web", field.ErrorList{
					field.Invalid(field.NewPath("metadata", "uid"), "old", "field is immutable"),
				})
			}
			return nil
		})

		w.changeHost("other.example.com")
		w.rollOut("worker")

		expect.Equal(t, "Ready", apimeta.ReasonHealthy, w.ready("shop").Reason)
		expect.Equal(t, "reloaded", []string{"Deployment/worker"}, w.config("shop").Status.Reloaded)
	})
}

func TestOlderAppConfigKeepsConfigMap(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Wait(time.Minute)

		w.create("rival")

		expect.Equal(t, "requests", []string{"patch appconfigs/rival status", "event Warning OwnershipConflict"}, w.Take())
		expect.Equal(t, "reason", apimeta.ReasonOwnershipConflict, w.ready("rival").Reason)
		expect.Equal(t, "message", `spec.application: shop belongs to AppConfig "shop": choose another application`,
			w.ready("rival").Message)
		w.Stop()
		w.start()
		expect.Equal(t, "requests of a restart", []string(nil), w.Take())
		controllertest.Delete(w.World, w.client.ConfigV1().AppConfigs("ns").Delete, "shop")
		// As the garbage collector does.
		controllertest.Delete(w.World, w.kube.CoreV1().ConfigMaps("ns").Delete, "shop-config")
		expect.Equal(t, "the rival when the name is free", apimeta.ReasonHealthy, w.ready("rival").Reason)
		expect.Equal(t, "owner", "rival", w.configMap("shop-config").OwnerReferences[0].Name)
	})
}

func TestConflictingConfigMapStalls(t *testing.T) {
	inEmptyWorld(t, func(w *world) {
		controllertest.Create(w.World, w.kube.CoreV1().ConfigMaps("ns").Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shop-config"}})

		w.create("shop")

		expect.Equal(t, "reason", apimeta.ReasonOwnershipConflict, w.ready("shop").Reason)
		expect.Equal(t, "message", `spec.application: ConfigMap "shop-config" exists and belongs to no owner: delete or rename one of the two`,
			w.ready("shop").Message)
	})
}

func TestTakenApplicationKeepsOldConfigMap(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change("shop", func(s *configv1.AppConfigSpec) { s.Application = "other" })
		w.create("younger")

		w.change("shop", func(s *configv1.AppConfigSpec) { s.Application = "shop" })

		expect.Equal(t, "reason", apimeta.ReasonOwnershipConflict, w.ready("shop").Reason)
		expect.Equal(t, "the younger", apimeta.ReasonHealthy, w.ready("younger").Reason)
		if w.configMap("other-config") == nil {
			t.Error("the old ConfigMap is gone before there is a new one")
		}
	})
}

func TestChangedApplicationMovesTheConfigMap(t *testing.T) {
	inWorld(t, func(w *world) {
		w.changeHost("other.example.com")
		w.Take()

		w.change("shop", func(s *configv1.AppConfigSpec) { s.Application = "other" })

		expect.Equal(t, "requests", []string{"patch configmaps/other-config", "delete configmaps/shop-config", "patch appconfigs/shop status", "event Normal Healthy"}, w.Take())
		expect.Equal(t, "time of the last change", (*metav1.Time)(nil), w.config("shop").Status.LastChangeTime)
		if w.configMap("shop-config") != nil {
			t.Error("the old ConfigMap is still there")
		}
	})
}

// TestNewerOperatorKeepsContent: an operator that renders other content from the same spec changes no ConfigMap,
// and rolls no workload.
func TestNewerOperatorKeepsContent(t *testing.T) {
	inEmptyWorld(t, func(w *world) {
		w.create("shop")
		content, hash := w.configMap("shop-config").Data, w.config("shop").Status.ConfigHash
		w.Stop()
		// The spec of the same generation renders otherwise, as with a newer operator.
		found := w.config("shop")
		found.Spec.Config["app.properties"] = "newer"
		expect.NoError(t, w.client.Tracker().Update(configv1.SchemeGroupVersion.WithResource("appconfigs"), found, "ns"))
		w.start()

		expect.Equal(t, "content", content, w.configMap("shop-config").Data)
		expect.Equal(t, "hash", hash, w.config("shop").Status.ConfigHash)
		held := meta.FindStatusCondition(w.config("shop").Status.Conditions, apimeta.ConditionUpgradeHeld)
		expect.Equal(t, "held", true, held != nil && held.Reason == childv1alpha1.ReasonAwaitingChange)
		expect.Equal(t, "Ready", true, meta.IsStatusConditionTrue(w.config("shop").Status.Conditions, apimeta.ConditionReady))

		w.change("shop", func(spec *configv1.AppConfigSpec) { spec.Config["app.properties"] = "changed" })

		expect.Equal(t, "content after a change", map[string]string{"app.properties": "changed"}, w.configMap("shop-config").Data)
		expect.Equal(t, "another hash", false, w.config("shop").Status.ConfigHash == hash)
	})
}
