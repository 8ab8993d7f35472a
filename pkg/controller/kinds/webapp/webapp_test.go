// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/webapp"
	"github.com/example/demoapp-controller/pkg/controller/kinds/webapp/images"
	versionedfake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/test/expect"
)

// hook is a cleanup hook that answers with an error, or with success.
type hook struct {
	mu    sync.Mutex
	err   error
	calls []string
}

func (h *hook) Call(_ context.Context, object cache.ObjectName) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, object.String())
	return "The cleanup server answered 204 No Content", h.err
}

func (h *hook) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

// called returns the objects of the calls so far.
func (h *hook) called() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// world is a controller of WebApps between fake clientsets.
type world struct {
	*controllertest.World

	t          *testing.T
	kube       *controllertest.Kube
	client     *versionedfake.Clientset
	controller *webapp.Controller
}

// inWorld runs a test in a world with the WebApp "web", whose pods are ready.
func inWorld(t *testing.T, options webapp.Options, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, options)
		w.create("nginx:1")
		w.makePodsReady()
		w.Take()
		test(t, w)
	})
}

func newWorld(t *testing.T, options webapp.Options) *world {
	t.Helper()
	kube, client := controllertest.NewKube(), versionedfake.NewClientset()
	w := &world{World: controllertest.NewWorld(t, kube, client), t: t, kube: kube, client: client}
	w.start(options)
	return w
}

// start starts the controller, as a new process does.
func (w *world) start(options webapp.Options) {
	w.t.Helper()
	informers, err1 := w.Informers("webapps", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(w.client, 0, externalversions.WithNamespace(namespace))
		return factory.Example().V1().WebApps().Informer(), nil
	})
	children, err2 := child.Builtin(w, w.kube, "Deployment", "Service")
	var err3 error
	w.controller, err3 = webapp.New(w.client.ExampleV1(), child.NewSet(webapp.Kind, children...), options, kind.Deps{
		Informers: informers, Recorder: w, Clock: clock.RealClock{}, ResyncPeriod: 10 * time.Hour,
	})
	expect.NoError(w.t, errors.Join(err1, err2, err3))
	w.Run(w.controller.Run)
}

// restart ends the process and starts it with other options.
func (w *world) restart(options webapp.Options) {
	w.t.Helper()
	w.Stop()
	w.start(options)
}

func (w *world) create(image string) {
	w.t.Helper()
	controllertest.Create(w.World, w.client.ExampleV1().WebApps("ns").Create, &examplev1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       examplev1.WebAppSpec{Replicas: 2, Image: image, Port: 8080},
	})
}

// change changes the WebApp.
func (w *world) change(change func(*examplev1.WebApp)) {
	w.t.Helper()
	found := w.webapp()
	change(found)
	controllertest.Update(w.World, w.client.ExampleV1().WebApps("ns").Update, found)
}

func (w *world) delete() {
	w.t.Helper()
	controllertest.Delete(w.World, w.client.ExampleV1().WebApps("ns").Delete, "web")
}

func (w *world) webapp() *examplev1.WebApp {
	w.t.Helper()
	found, err := w.lookup()
	expect.NoError(w.t, err)
	return found
}

func (w *world) lookup() (found *examplev1.WebApp, err error) {
	w.Act(func() error {
		found, err = w.client.ExampleV1().WebApps("ns").Get(context.Background(), "web", metav1.GetOptions{})
		return nil
	})
	return found, err
}

func (w *world) deployment() *appsv1.Deployment {
	w.t.Helper()
	return controllertest.Get(w.World, w.kube.AppsV1().Deployments("ns").Get, "web")
}

// makePodsReady plays the Deployment's controller.
func (w *world) makePodsReady() {
	w.t.Helper()
	w.report(func(d *appsv1.Deployment) {
		d.Status = controllertest.RolledOut(d)
	})
}

// refusePods plays the Deployment's controller when the API server refuses the pods.
func (w *world) refusePods(message string) {
	w.t.Helper()
	w.report(func(d *appsv1.Deployment) {
		d.Status.ObservedGeneration, d.Status.UpdatedReplicas = d.Generation, 0
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message,
		})
	})
}

func (w *world) report(change func(*appsv1.Deployment)) {
	w.t.Helper()
	found := w.deployment()
	change(found)
	controllertest.Update(w.World, w.kube.AppsV1().Deployments("ns").UpdateStatus, found)
}

// ready is the condition Ready of the WebApp.
func (w *world) ready() metav1.Condition {
	w.t.Helper()
	found := w.webapp()
	return w.Ready(found.Generation, found.Status.ObservedGeneration, found.Status.Conditions)
}

// state is the phase and the reasons of Ready and Available.
func (w *world) state() string {
	w.t.Helper()
	found := w.webapp()
	text := found.Status.Phase
	for _, conditionType := range []string{"Ready", "Available"} {
		if c := meta.FindStatusCondition(found.Status.Conditions, conditionType); c != nil {
			text += " " + conditionType + "=" + string(c.Status) + ":" + c.Reason
		}
	}
	return text
}

func blocking(t *testing.T, references ...string) webapp.Options {
	t.Helper()
	list, err := images.ParseBlocklist(references)
	expect.NoError(t, err)
	return webapp.Options{Blocked: list}
}

// TestRequestBudget holds how many requests a WebApp costs in its life.
func TestRequestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, webapp.Options{})

		w.create("nginx:1")
		expect.Equal(t, "requests of the creation", []string{
			"patch deployments/web", "patch services/web", "patch webapps/web status", "event Normal Created",
		}, w.Take())
		expect.Equal(t, "state", "Deploying Ready=False:Progressing Available=False:MinimumReplicasUnavailable", w.state())
		w.makePodsReady()
		expect.Equal(t, "requests when the pods are ready", []string{"patch webapps/web status", "event Normal Healthy"}, w.Take())
		expect.Equal(t, "state", "Running Ready=True:Healthy Available=True:MinimumReplicasAvailable", w.state())
		expect.Equal(t, "ready pods", int32(2), w.webapp().Status.ReadyReplicas)
		w.Wait(9 * time.Hour)
		expect.Equal(t, "requests at rest", []string(nil), w.Take())
		w.restart(webapp.Options{})
		expect.Equal(t, "requests of a restart", []string(nil), w.Take())
		w.change(func(web *examplev1.WebApp) { web.Spec.Image = "nginx:2" })
		// The first request of a new process confirms the WebApp.
		expect.Equal(t, "requests of a new image", []string{"patch webapps/web status", "patch deployments/web", "patch webapps/web status"}, w.Take())
	})
}

func TestSpecReachesTheChildren(t *testing.T) {
	inWorld(t, webapp.Options{}, func(t *testing.T, w *world) {
		w.change(func(web *examplev1.WebApp) {
			web.Spec = examplev1.WebAppSpec{
				Replicas: 3, Image: "nginx:2", Port: 9090,
				Resources:       &workloadv1alpha1.Resources{Limits: workloadv1alpha1.ResourceList{"cpu": resource.MustParse("1")}},
				SecurityContext: &workloadv1alpha1.SecurityContext{RunAsUser: ptr.To[int64](1000)},
			}
		})

		deployment := w.deployment()
		pod := deployment.Spec.Template.Spec
		container := pod.Containers[0]
		expect.Equal(t, "replicas", ptr.To[int32](3), deployment.Spec.Replicas)
		expect.Equal(t, "image", "nginx:2", container.Image)
		expect.Equal(t, "port", int32(9090), container.Ports[0].ContainerPort)
		expect.Equal(t, "limit", "1", container.Resources.Limits.Cpu().String())
		expect.Equal(t, "security context of the container", &corev1.SecurityContext{
			RunAsUser: ptr.To[int64](1000), AllowPrivilegeEscalation: ptr.To(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}, container.SecurityContext)
		expect.Equal(t, "runAsNonRoot of the pod", ptr.To(true), pod.SecurityContext.RunAsNonRoot)
		service, err := w.kube.CoreV1().Services("ns").Get(t.Context(), "web", metav1.GetOptions{})
		expect.NoError(t, err)
		expect.Equal(t, "port of the Service", int32(9090), service.Spec.Ports[0].Port)
		expect.Equal(t, "target port of the Service", container.Ports[0].Name, service.Spec.Ports[0].TargetPort.String())
		expect.Equal(t, "selector of the Service", deployment.Spec.Template.Labels, service.Spec.Selector)
	})
}

// TestSecurityProfile: pods run stock images of registries, which start as root, unless the namespace or a field
// asks for the restricted profile.
func TestSecurityProfile(t *testing.T) {
	for restricted, given := range map[bool]*workloadv1alpha1.SecurityContext{
		false: {ReadOnlyRootFilesystem: ptr.To(true)}, true: {RunAsUser: ptr.To[int64](1000)},
	} {
		for _, enforced := range []bool{false, true} {
			app := &examplev1.WebApp{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns"}, Spec: examplev1.WebAppSpec{
				Replicas: 1, Image: "nginx", Port: 80, SecurityContext: given,
			}}
			rendered, err := child.Render(app, webapp.Kind, webapp.Desired(app, enforced)...)
			expect.NoError(t, err)
			var deployment appsv1.Deployment
			expect.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(rendered[0].Object.Object, &deployment))

			pod := deployment.Spec.Template.Spec
			expect.Equal(t, fmt.Sprintf("runAsNonRoot with %+v, enforced %t", *given, enforced), restricted || enforced,
				ptr.Deref(pod.SecurityContext.RunAsNonRoot, false))
			expect.Equal(t, "field of the WebApp", given.RunAsUser, pod.Containers[0].SecurityContext.RunAsUser)
		}
	}
}

func TestPortBelow1024(t *testing.T) {
	inWorld(t, webapp.Options{}, func(t *testing.T, w *world) {
		expect.Equal(t, "sysctls for port 8080", []corev1.Sysctl(nil), w.deployment().Spec.Template.Spec.SecurityContext.Sysctls)

		w.change(func(web *examplev1.WebApp) { web.Spec.Port = 80 })

		expect.Equal(t, "sysctls for port 80", []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}},
			w.deployment().Spec.Template.Spec.SecurityContext.Sysctls)
	})
}

func TestRefusedPodsStall(t *testing.T) {
	tests := map[string]struct{ message, field string }{
		"Pod Security": {`pods "web-1-abcde" is forbidden: violates PodSecurity "restricted:latest": runAsUser=0`, "spec.securityContext: "},
		"quota":        {`pods "web-1-abcde" is forbidden: exceeded quota: pods, requested: pods=1`, "spec.replicas, spec.resources: "},
		"no limits":    {`pods "web-1-abcde" is forbidden: failed quota: cpu: must specify limits.cpu`, "spec.resources: "},
		"limit range":  {`pods "web-1-abcde" is forbidden: maximum cpu usage per Container is 1, but limit is 2`, "spec.resources: "},
		"policy":       {`pods "web-1-abcde" is forbidden: ValidatingAdmissionPolicy 'x' denied request: no`, "spec: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, webapp.Options{}, func(t *testing.T, w *world) {
				w.refusePods(test.message)

				expect.Equal(t, "requests", []string{"patch webapps/web status", "event Warning PodsRefused"}, w.Take())
				expect.Equal(t, "state", "Running Ready=False:PodsRefused Available=True:MinimumReplicasAvailable", w.state())
				if got := w.ready().Message; !strings.HasPrefix(got, test.field) || strings.Contains(got, "abcde") {
					t.Errorf("message is %q, want one that begins with %q and names no pod", got, test.field)
				}
				w.refusePods(strings.Replace(test.message, "abcde", "fghij", 1))
				expect.Equal(t, "requests of another attempt", []string(nil), w.Take())
				w.makePodsReady()
				expect.Equal(t, "reason with pods", apimeta.ReasonHealthy, w.ready().Reason)
			})
		})
	}
}

func TestRefusedChildStalls(t *testing.T) {
	inWorld(t, webapp.Options{}, func(t *testing.T, w *world) {
		w.Refuse(func(request string) error {
			if request != "patch deployments/web" {
				return nil
			}
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web",
				field.ErrorList{field.Invalid(field.NewPath("spec", "selector"), "x", "field is immutable")})
		})

		w.change(func(web *examplev1.WebApp) { web.Spec.Image = "nginx:2" })

		expect.Equal(t, "reason", apimeta.ReasonRefused, w.ready().Reason)
		expect.Equal(t, "phase", examplev1.PhaseRunning, w.webapp().Status.Phase)
	})
}

// TestRefusedChildNamesFieldOfWebApp: users know the fields of the WebApp, not of the Deployment.
func TestRefusedChildNamesFieldOfWebApp(t *testing.T) {
	container := field.NewPath("spec", "template", "spec", "containers").Index(0)
	tests := map[string]struct{ refusal, want *field.Error }{
		"resources": {
			field.Invalid(container.Child("resources", "requests"), "2", "must be less than or equal to cpu limit of 1"),
			field.Invalid(field.NewPath("spec", "resources", "requests"), "", "must be less than or equal to cpu limit of 1"),
		},
		"security context": {
			field.Invalid(container.Child("securityContext"), "{}", "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"),
			field.Invalid(field.NewPath("spec", "securityContext"), "", "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"),
		},
		"port": {
			field.Invalid(container.Child("ports").Index(0).Child("containerPort"), 1, "is reserved"),
			field.Invalid(field.NewPath("spec", "port"), "", "is reserved"),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, webapp.Options{}, func(t *testing.T, w *world) {
				w.Refuse(func(request string) error {
					if request != "patch deployments/web" {
						return nil
					}
					return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web", field.ErrorList{test.refusal})
				})

				w.change(func(web *examplev1.WebApp) { web.Spec.Image = "nginx:2" })

				expect.Equal(t, "message", fmt.Sprintf(`Deployment "web" was refused: %s: %s`, test.want.Field, test.want.Detail), w.ready().Message)
			})
		})
	}
}

func TestConflictingObjectStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, webapp.Options{})
		controllertest.Create(w.World, w.kube.AppsV1().Deployments("ns").Create, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}})

		w.create("nginx:1")

		expect.Equal(t, "state", "Pending Ready=False:OwnershipConflict Available=False:NoDeployment", w.state())
	})
}

func TestCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &hook{}
		w := newWorld(t, webapp.Options{Cleanup: hook})
		w.create("nginx:1")
		expect.Equal(t, "requests of the creation", []string{
			"patch webapps/web", "patch deployments/web", "patch services/web", "patch webapps/web status", "event Normal Created",
		}, w.Take())
		w.makePodsReady()
		w.Take()

		w.delete()

		expect.Equal(t, "requests of the deletion", []string{"patch webapps/web", "event Normal CleanedUp"}, w.Take())
		expect.Equal(t, "calls", []string{"ns/web"}, hook.called())
		if _, err := w.lookup(); !apierrors.IsNotFound(err) {
			t.Errorf("the WebApp is not gone: %v", err)
		}
	})
}

// TestOrphanCallsNoCleanup: the app runs on after a deletion with the propagation policy Orphan.
func TestOrphanCallsNoCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &hook{}
		w := newWorld(t, webapp.Options{Cleanup: hook})
		w.create("nginx:1.27")
		w.change(func(app *examplev1.WebApp) { app.Finalizers = append(app.Finalizers, metav1.FinalizerOrphanDependents) })
		w.Take()

		w.delete()

		expect.Equal(t, "requests of the deletion", []string{"patch webapps/web", "event Normal Orphaned"}, w.Take())
		expect.Equal(t, "calls", 0, len(hook.calls))
		expect.Equal(t, "finalizers", []string{metav1.FinalizerOrphanDependents}, w.webapp().Finalizers)
	})
}

func TestFailingCleanupIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &hook{err: errors.New("The connection to the cleanup server failed")}
		w := newWorld(t, webapp.Options{Cleanup: hook})
		w.create("nginx:1")
		w.makePodsReady()
		w.Take()

		w.delete()
		expect.Equal(t, "requests of the deletion", []string{"patch webapps/web status", "event Warning CleanupPending"}, w.Take())
		expect.Equal(t, "message", "Deletion waits: The connection to the cleanup server failed; the cleanup hook (--webapp-cleanup-url) is called again",
			w.ready().Message)
		w.Wait(time.Minute)
		if calls := len(hook.called()); calls < 5 || calls > 9 {
			t.Errorf("%d calls in the first minute, want 5 to 9", calls)
		}
		expect.Equal(t, "requests of the retries", []string(nil), w.Take())
		hook.fail(nil)
		w.Wait(5 * time.Minute)

		expect.Equal(t, "requests of the success", []string{"patch webapps/web", "event Normal CleanedUp"}, w.Take())
	})
}

// TestBusyCleanupIsNotFailure: a call that waits for other calls does not change the status.
func TestBusyCleanupIsNotFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &hook{err: fmt.Errorf("call: %w", controller.ErrTooManyWaiting)}
		w := newWorld(t, webapp.Options{Cleanup: hook})
		w.create("nginx:1")
		w.makePodsReady()
		w.Take()

		w.delete()
		w.Wait(time.Minute)

		expect.Equal(t, "requests while the hook is busy", []string(nil), w.Take())
		if calls := len(hook.called()); calls < 10 || calls > 16 {
			t.Errorf("%d calls in the first minute, want 10 to 16", calls)
		}
		hook.fail(nil)
		w.Wait(10 * time.Second)
		expect.Equal(t, "requests of the success", []string{"patch webapps/web", "event Normal CleanedUp"}, w.Take())
	})
}

func TestCleanupURLIsSetAndRemoved(t *testing.T) {
	inWorld(t, webapp.Options{}, func(t *testing.T, w *world) {
		hook := &hook{}
		expect.Equal(t, "finalizers without a hook", []string(nil), w.webapp().Finalizers)

		w.restart(webapp.Options{Cleanup: hook})
		expect.Equal(t, "requests with a hook", []string{"patch webapps/web"}, w.Take())
		expect.Equal(t, "finalizers with a hook", []string{examplev1.Finalizer}, w.webapp().Finalizers)
		w.restart(webapp.Options{})
		expect.Equal(t, "requests without a hook", []string{"patch webapps/web"}, w.Take())
		expect.Equal(t, "finalizers without a hook", []string(nil), w.webapp().Finalizers)
		expect.Equal(t, "calls", 0, len(hook.called()))
	})
}

// TestDeletionWaitsNoLongerWithoutHook: the URL is removed while a deletion waits for the hook.
func TestDeletionWaitsNoLongerWithoutHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, webapp.Options{Cleanup: &hook{err: errors.New("The connection to the cleanup server failed")}})
		w.create("nginx:1")
		w.delete()
		w.Take()

		w.restart(webapp.Options{})

		expect.Equal(t, "requests", []string{"patch webapps/web"}, w.Take())
		if _, err := w.lookup(); !apierrors.IsNotFound(err) {
			t.Errorf("the WebApp is not gone: %v", err)
		}
	})
}

func TestBlockedImageIsNotRolledOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, blocking(t, "nginx"))

		w.create("nginx:1")

		expect.Equal(t, "requests", []string{
			"patch services/web", "patch webapps/web status", "event Normal Created", "event Warning ImageBlocked",
		}, w.Take())
		expect.Equal(t, "state", "Pending Ready=False:ImageBlocked Available=False:NoDeployment", w.state())
		expect.Equal(t, "message", `spec.image: "nginx:1" is blocked by "nginx" of --blocked-images: no pods are created; `+
			"set spec.image to an image that is not blocked", w.ready().Message)
		w.change(func(web *examplev1.WebApp) { web.Spec.Image = "caddy:2" })
		expect.Equal(t, "requests for another image", []string{"patch deployments/web", "patch webapps/web status"}, w.Take())
	})
}

func TestBlockedImageKeepsDeployment(t *testing.T) {
	inWorld(t, blocking(t, "nginx:2"), func(t *testing.T, w *world) {
		w.change(func(web *examplev1.WebApp) { web.Spec.Image, web.Spec.Replicas, web.Spec.Port = "nginx:2", 5, 9090 })

		expect.Equal(t, "requests", []string{"patch services/web", "patch webapps/web status", "event Warning ImageBlocked"}, w.Take())
		expect.Equal(t, "state", "Running Ready=False:ImageBlocked Available=True:MinimumReplicasAvailable", w.state())
		expect.Equal(t, "image that runs", "nginx:1", w.deployment().Spec.Template.Spec.Containers[0].Image)
		expect.Equal(t, "replicas that run", ptr.To[int32](2), w.deployment().Spec.Replicas)
		controllertest.Delete(w.World, w.kube.AppsV1().Deployments("ns").Delete, "web")
		expect.Equal(t, "requests for a deleted Deployment", []string{"patch webapps/web status"}, w.Take())
		expect.Equal(t, "state", "Pending Ready=False:ImageBlocked Available=False:NoDeployment", w.state())
	})
}

// TestRunningBlockedImageIsManaged: neither drift nor another number of replicas rolls the image
// out anew.
func TestRunningBlockedImageIsManaged(t *testing.T) {
	inWorld(t, webapp.Options{}, func(t *testing.T, w *world) {
		w.restart(blocking(t, "nginx"))
		w.Take()
		expect.Equal(t, "message", `spec.image: "nginx:1" is blocked by "nginx" of --blocked-images: the existing pods keep running; `+
			"set spec.image to an image that is not blocked", w.ready().Message)

		w.Act(func() error {
			found, err := w.kube.AppsV1().Deployments("ns").Get(t.Context(), "web", metav1.GetOptions{})
			expect.NoError(t, err)
			found.Spec.Replicas = ptr.To[int32](7)
			_, err = w.kube.AppsV1().Deployments("ns").Update(t.Context(), found, metav1.UpdateOptions{FieldManager: "theirs"})
			return err
		})
		expect.Equal(t, "requests after drift", []string{
			"patch deployments/web", "patch webapps/web status", "event Normal DriftCorrected",
		}, w.Take())
		w.change(func(web *examplev1.WebApp) { web.Spec.Replicas = 3 })
		expect.Equal(t, "replicas", ptr.To[int32](3), w.deployment().Spec.Replicas)
		expect.Equal(t, "reason", examplev1.ReasonImageBlocked, w.ready().Reason)
		w.Take()
		controllertest.Delete(w.World, w.kube.CoreV1().Services("ns").Delete, "web")
		expect.Equal(t, "requests for a deleted Service", []string{
			"patch services/web", "patch webapps/web status", "event Normal DriftCorrected",
		}, w.Take())
	})
}

func TestRunningImageBecomesBlocked(t *testing.T) {
	inWorld(t, webapp.Options{}, func(t *testing.T, w *world) {
		w.restart(blocking(t, "nginx", "redis"))

		expect.Equal(t, "requests", []string{"patch webapps/web status", "event Warning ImageBlocked"}, w.Take())
		expect.Equal(t, "state", "Running Ready=False:ImageBlocked Available=True:MinimumReplicasAvailable", w.state())
		expect.Equal(t, "WebApps by entry", map[string]int{"nginx": 1, "redis": 0}, w.controller.Blocked())
		w.Wait(9 * time.Hour)
		expect.Equal(t, "requests at rest", []string(nil), w.Take())
		w.restart(webapp.Options{})
		expect.Equal(t, "requests without the entry", []string{"patch webapps/web status", "event Normal Healthy"}, w.Take())
	})
}
