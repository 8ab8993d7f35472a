// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package website_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/website"
	versionedfake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/test/expect"
)

// world is a controller of Websites between fake clientsets.
type world struct {
	*controllertest.World

	t      *testing.T
	kube   *controllertest.Kube
	client *versionedfake.Clientset
	// images is the configuration of the operator, and rollout its counts.
	images  images.Table
	rollout func() controller.RolloutCounts
}

// inWorld runs a test in a world with the Website "web", whose pods are ready.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create()
		w.makePodsReady()
		w.Take()
		test(w)
	})
}

func newWorld(t *testing.T) *world {
	kube, client := controllertest.NewKube(), versionedfake.NewClientset()
	w := &world{World: controllertest.NewWorld(t, kube, client), t: t, kube: kube, client: client}
	w.start()
	return w
}

// start starts the controller, as a new process does.
func (w *world) start() {
	w.t.Helper()
	informers, err1 := w.Informers("websites", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(w.client, 0, externalversions.WithNamespace(namespace))
		return factory.Webapp().V1().Websites().Informer(), nil
	})
	children, err2 := child.Builtin(w, w.kube, "ConfigMap", "Deployment", "Service")
	pods, err4 := child.NewPodHealth(w, w.kube, webappv1.LabelWebsite)
	expect.NoError(w.t, err4)
	loop, err3 := website.New(w.client.WebappV1(), child.NewSet(website.Kind, children...).ExplainedBy(pods), w.images, "", kind.Deps{
		Informers: informers, Recorder: w, Clock: clock.RealClock{}, ResyncPeriod: 10 * time.Hour,
	})
	expect.NoError(w.t, errors.Join(err1, err2, err3))
	w.rollout = loop.Rollout
	w.Run(loop.Run)
}

func (w *world) create() {
	w.t.Helper()
	replicas := int32(2)
	controllertest.Create(w.World, w.client.WebappV1().Websites("ns").Create, &webappv1.Website{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       webappv1.WebsiteSpec{Replicas: &replicas, Image: "nginx:1.27-alpine", HTML: "<h1>one</h1>"},
	})
}

// change changes the Website.
func (w *world) change(change func(*webappv1.Website)) {
	w.t.Helper()
	found := w.website()
	change(found)
	controllertest.Update(w.World, w.client.WebappV1().Websites("ns").Update, found)
}

func (w *world) website() *webappv1.Website {
	w.t.Helper()
	return controllertest.Get(w.World, w.client.WebappV1().Websites("ns").Get, "web")
}

func (w *world) deployment() *appsv1.Deployment {
	w.t.Helper()
	return controllertest.Get(w.World, w.kube.AppsV1().Deployments("ns").Get, "web")
}

// makePodsReady plays the Deployment's controller.
func (w *world) makePodsReady() {
	w.t.Helper()
	found := w.deployment()
	found.Status = controllertest.RolledOut(found)
	controllertest.Update(w.World, w.kube.AppsV1().Deployments("ns").UpdateStatus, found)
}

// ready is the condition Ready of the Website.
func (w *world) ready() metav1.Condition {
	w.t.Helper()
	found := w.website()
	return w.Ready(found.Generation, found.Status.ObservedGeneration, found.Status.Conditions)
}

// TestRequestBudget holds how many requests a Website costs in its life.
func TestRequestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)

		w.create()
		expect.Equal(t, "requests of the creation", []string{
			"patch configmaps/web", "patch deployments/web", "patch services/web", "patch websites/web status", "event Normal Created",
		}, w.Take())
		w.makePodsReady()
		expect.Equal(t, "requests when the pods are ready", []string{"patch websites/web status", "event Normal Healthy"}, w.Take())
		w.Wait(9 * time.Hour)
		expect.Equal(t, "requests at rest", []string(nil), w.Take())
		w.Stop()
		w.start()
		expect.Equal(t, "requests of a restart", []string(nil), w.Take())
		w.change(func(web *webappv1.Website) { web.Spec.HTML = "<h1>two</h1>" })
		// The first request of a new process confirms the Website.
		expect.Equal(t, "requests of a new page", []string{
			"patch websites/web status", "patch configmaps/web", "patch deployments/web", "patch websites/web status",
		}, w.Take())
	})
}

func TestDriftIsCorrected(t *testing.T) {
	inWorld(t, func(w *world) {
		controllertest.Delete(w.World, w.kube.CoreV1().Services("ns").Delete, "web")

		expect.Equal(w.t, "requests", []string{"patch services/web", "patch websites/web status", "event Normal DriftCorrected"}, w.Take())
		expect.Equal(w.t, "Ready", metav1.ConditionTrue, w.ready().Status)
	})
}

func TestRepeatedDriftIsReportedOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		maps := w.kube.CoreV1().ConfigMaps("ns")

		for i := range 60 {
			w.Act(func() error {
				found, err := maps.Get(t.Context(), "web", metav1.GetOptions{})
				expect.NoError(t, err)
				found.Data["index.html"] = fmt.Sprint("theirs ", i)
				_, err = maps.Update(t.Context(), found, metav1.UpdateOptions{FieldManager: "theirs"})
				return err
			})
			w.Wait(time.Second)
		}

		expect.Equal(t, "reason", apimeta.ReasonRepeatedDrift, w.ready().Reason)
		events := map[string]int{}
		for _, sent := range w.Take() {
			events[sent]++
		}
		expect.Equal(t, "events about the contest", 1, events["event Warning RepeatedDrift"])
		if writes := events["patch configmaps/web"]; writes < 5 || writes > 12 {
			t.Errorf("%d corrections in a minute, want 5 to 12", writes)
		}
		w.Wait(5 * time.Minute)
		expect.Equal(t, "Ready afterwards", metav1.ConditionTrue, w.ready().Status)
	})
}

func TestStatus(t *testing.T) {
	inWorld(t, func(w *world) {
		status := w.website().Status

		expect.Equal(w.t, "Ready", apimeta.ReasonHealthy, w.ready().Reason)
		expect.Equal(w.t, "pods", [2]int32{2, 2}, [2]int32{status.Replicas, status.ReadyReplicas})
		expect.Equal(w.t, "selector", "app=website,website=web", status.Selector)
		expect.Equal(w.t, "url", "http://web.ns.svc.cluster.local", status.URL)
	})
}

func TestNewPageRollsThePods(t *testing.T) {
	inWorld(t, func(w *world) {
		before := w.deployment().Spec.Template.Annotations[webappv1.AnnotationHTMLHash]

		w.change(func(web *webappv1.Website) { web.Spec.HTML = "<h1>two</h1>" })

		if after := w.deployment().Spec.Template.Annotations[webappv1.AnnotationHTMLHash]; after == before || after == "" {
			t.Errorf("hash is %q after %q", after, before)
		}
		expect.Equal(w.t, "Ready until the pods are", apimeta.ReasonProgressing, w.ready().Reason)
	})
}

func TestRefusedChildStalls(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Refuse(func(request string) error {
			if request != "patch deployments/web" {
				return nil
			}
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web",
				field.ErrorList{field.Invalid(field.NewPath("spec", "selector"), "x", "field is immutable")})
		})

		w.change(func(web *webappv1.Website) { web.Spec.Image = "nginx:2" })

		expect.Equal(w.t, "reason", apimeta.ReasonRefused, w.ready().Reason)
		expect.Equal(w.t, "message", `Deployment "web" was refused: spec.selector: field is immutable`, w.ready().Message)
	})
}

func TestConflictingObjectStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		controllertest.Create(w.World, w.kube.CoreV1().Services("ns").Create, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}})

		w.create()

		expect.Equal(t, "reason", apimeta.ReasonOwnershipConflict, w.ready().Reason)
	})
}

// TestLogSaysWhatChanged reads the lines of level 0. All lines, of all levels, have the fields of
// their pass: the world checks that.
func TestLogSaysWhatChanged(t *testing.T) {
	inWorld(t, func(w *world) {
		before := len(w.Log())
		w.change(func(web *webappv1.Website) { web.Spec.HTML = "<h1>two</h1>" })

		var said []string
		for line := range strings.Lines(w.Log()[before:]) {
			var record struct {
				Level, Msg, Target, Event string
				Object                    struct{ Name string }
			}
			expect.NoError(t, json.Unmarshal([]byte(line), &record))
			if record.Level == "INFO" {
				said = append(said, strings.TrimSpace(record.Object.Name+" "+record.Msg+" "+record.Target+record.Event))
			}
		}
		want := []string{"web Applied a child ConfigMap/web", "web Applied a child Deployment/web"}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

// failingPod returns a pod of the Deployment "web" whose image cannot be pulled.
func failingPod(reason string) *corev1.Pod {
	controller := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web-1-a", Labels: map[string]string{webappv1.LabelWebsite: "web"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "1", Controller: &controller}},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "web", Image: "nginx:nope", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "Back-off"}},
		}}},
	}
}

func TestPodThatDoesNotStartIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create()

		controllertest.Create(w.World, w.kube.CoreV1().Pods("ns").Create, failingPod("ErrImagePull"))
		w.Wait(2 * time.Second)

		expect.Contains(t, "message", w.ready().Message, `Deployment "web": `, `pod web-1-a: container "web": ImagePullBackOff: the image "nginx:nope" cannot be pulled`,
			"check that the image exists")
		w.Take()
		controllertest.Update(w.World, w.kube.CoreV1().Pods("ns").UpdateStatus, failingPod("ImagePullBackOff"))
		w.Wait(time.Minute)
		expect.Equal(t, "requests while the kubelet retries", []string(nil), w.Take())
		w.makePodsReady()
		w.Wait(time.Second)
		expect.Equal(t, "reason when the pods are ready", apimeta.ReasonHealthy, w.ready().Reason)
	})
}

// TestPodThatRunsUnready: nothing of the pod changes after its start.
func TestPodThatRunsUnready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create()
		pod := failingPod("")
		pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}

		controllertest.Create(w.World, w.kube.CoreV1().Pods("ns").Create, pod)
		w.Wait(50 * time.Second)
		begun := w.ready().Message
		w.Wait(20 * time.Second)

		if strings.Contains(begun, "pod web-1-a") {
			t.Errorf("message in the first minute: %s", begun)
		}
		expect.Contains(t, "message", w.ready().Message, `pod web-1-a: container "web": NotReady: it runs, but its readiness probe`, "kubectl describe pod")
		w.Take()
		w.Wait(time.Hour)
		expect.Equal(t, "requests later", []string(nil), w.Take())
	})
}
