// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memcachedbackup_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/memcachedbackup"
	versionedfake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/test/expect"
)

// pods is the resource of the pods.
var pods = corev1.SchemeGroupVersion.WithResource("pods")

// world is a controller of MemcachedBackups between fake clientsets.
type world struct {
	*controllertest.World

	t      *testing.T
	kube   *controllertest.Kube
	client *versionedfake.Clientset
}

// inWorld runs a test in a world with the MemcachedBackup "cache", whose pods "a" and "b" are
// ready.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create()
		w.createPods(podOfCache("b"), podOfCache("a"))
		w.makePodsReady()
		w.Wait(time.Second)
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
	informers, err1 := w.Informers("memcachedbackups", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(w.client, 0, externalversions.WithNamespace(namespace))
		return factory.Cache().V1().MemcachedBackups().Informer(), nil
	})
	children, err2 := child.Builtin(w, w.kube, "Deployment")
	pods, err3 := child.NewPodHealth(w, w.kube, cachev1.LabelMemcachedBackup)
	expect.NoError(w.t, errors.Join(err1, err2, err3))
	loop, err := memcachedbackup.New(w.client.CacheV1(), child.NewSet(memcachedbackup.Kind, children...), pods, images.Table{}, kind.Deps{
		Informers: informers, Recorder: w, Clock: clock.RealClock{}, ResyncPeriod: 10 * time.Hour,
	})
	expect.NoError(w.t, err)
	w.Run(loop.Run)
}

func (w *world) create() {
	w.t.Helper()
	controllertest.Create(w.World, w.client.CacheV1().MemcachedBackups("ns").Create, &cachev1.MemcachedBackup{
		ObjectMeta: metav1.ObjectMeta{Name: "cache"}, Spec: cachev1.MemcachedBackupSpec{Size: ptr.To(int32(2))},
	})
}

// resize changes spec.size.
func (w *world) resize(size int32) {
	w.t.Helper()
	found := w.backup()
	found.Spec.Size = &size
	controllertest.Update(w.World, w.client.CacheV1().MemcachedBackups("ns").Update, found)
}

func (w *world) backup() *cachev1.MemcachedBackup {
	w.t.Helper()
	return controllertest.Get(w.World, w.client.CacheV1().MemcachedBackups("ns").Get, "cache")
}

func (w *world) deployment() *appsv1.Deployment {
	w.t.Helper()
	return controllertest.Get(w.World, w.kube.AppsV1().Deployments("ns").Get, "cache")
}

// podOfCache returns a pod of the MemcachedBackup "cache".
func podOfCache(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Labels: map[string]string{cachev1.LabelMemcachedBackup: "cache"},
			Annotations: map[string]string{"large": "annotation"},
		},
	}
}

// createPods plays the controller of ReplicaSets.
func (w *world) createPods(created ...*corev1.Pod) {
	w.t.Helper()
	w.Act(func() error {
		for _, pod := range created {
			if err := w.kube.Tracker().Create(pods, pod, pod.Namespace); err != nil {
				return err
			}
		}
		return nil
	})
}

// changePod changes the metadata of a pod of the MemcachedBackup.
func (w *world) changePod(name string, change func(*corev1.Pod)) {
	w.t.Helper()
	pod := podOfCache(name)
	pod.ResourceVersion = "later"
	change(pod)
	w.Act(func() error { return w.kube.Tracker().Update(pods, pod, pod.Namespace) })
}

// makePodsReady plays the controller of Deployments.
func (w *world) makePodsReady() {
	w.t.Helper()
	found := w.deployment()
	found.Status = controllertest.RolledOut(found)
	controllertest.Update(w.World, w.kube.AppsV1().Deployments("ns").UpdateStatus, found)
}

// ready is the condition Ready of the MemcachedBackup.
func (w *world) ready() metav1.Condition {
	w.t.Helper()
	found := w.backup()
	return w.Ready(found.Generation, found.Status.ObservedGeneration, found.Status.Conditions)
}

// TestRequestBudget holds how many requests a MemcachedBackup costs in its life.
func TestRequestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)

		w.create()
		expect.Equal(t, "requests of the creation", []string{
			"patch deployments/cache", "patch memcachedbackups/cache status", "event Normal Created",
		}, w.Take())
		w.createPods(podOfCache("a"), podOfCache("b"))
		w.makePodsReady()
		w.Wait(time.Second)
		expect.Equal(t, "requests when the pods are ready", []string{"patch memcachedbackups/cache status", "event Normal Healthy"}, w.Take())
		w.Wait(9 * time.Hour)
		expect.Equal(t, "requests at rest", []string(nil), w.Take())
		w.Stop()
		w.start()
		expect.Equal(t, "requests of a restart", []string(nil), w.Take())
		w.resize(3)
		// The first request of a new process confirms the MemcachedBackup.
		expect.Equal(t, "requests of a new size", []string{
			"patch memcachedbackups/cache status", "patch deployments/cache", "patch memcachedbackups/cache status",
		}, w.Take())
	})
}

func TestStatus(t *testing.T) {
	inWorld(t, func(w *world) {
		status := w.backup().Status

		expect.Equal(w.t, "Ready", apimeta.ReasonHealthy, w.ready().Reason)
		expect.Equal(w.t, "nodes", []string{"a", "b"}, status.Nodes)
		expect.Equal(w.t, "readyReplicas", int32(2), status.ReadyReplicas)
	})
}

func TestNodesFollowThePods(t *testing.T) {
	tests := map[string]struct {
		act   func(w *world)
		nodes []string
	}{
		"a new pod":        {func(w *world) { w.createPods(podOfCache("aa")) }, []string{"a", "aa", "b"}},
		"a deleted pod":    {func(w *world) { w.Act(func() error { return w.kube.Tracker().Delete(pods, "ns", "a") }) }, []string{"b"}},
		"a pod of another": {func(w *world) { w.createPods(ofOther("c", "ns", "other")) }, []string{"a", "b"}},
		"a pod elsewhere":  {func(w *world) { w.createPods(ofOther("c", "elsewhere", "cache")) }, []string{"a", "b"}},
		"a pod that is being deleted": {func(w *world) {
			w.changePod("a", func(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.Now()) })
		}, []string{"b"}},
		"a pod with another label": {func(w *world) {
			w.changePod("a", func(pod *corev1.Pod) { pod.Labels[cachev1.LabelMemcachedBackup] = "other" })
		}, []string{"b"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				test.act(w)

				expect.Equal(w.t, "nodes", test.nodes, w.backup().Status.Nodes)
			})
		})
	}
}

// ofOther returns a pod that belongs to another MemcachedBackup.
func ofOther(name, namespace, owner string) *corev1.Pod {
	pod := podOfCache(name)
	pod.Namespace, pod.Labels[cachev1.LabelMemcachedBackup] = namespace, owner
	return pod
}

func TestOtherChangesOfPodsCostNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.changePod("a", func(pod *corev1.Pod) { pod.Annotations["note"] = "theirs" })

		expect.Equal(w.t, "requests", []string(nil), w.Take())
	})
}

func TestReadyWaitsForNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create()
		w.createPods(podOfCache("a"))
		w.makePodsReady()
		w.Wait(time.Second)
		expect.Equal(t, "reason without a pod", apimeta.ReasonProgressing, w.ready().Reason)
		expect.Equal(t, "message without a pod", "1 of 2 pods are observed", w.ready().Message)

		w.createPods(podOfCache("b"))
		w.Wait(time.Second)

		expect.Equal(t, "reason with all pods", apimeta.ReasonHealthy, w.ready().Reason)
	})
}

func TestNodesAreLimited(t *testing.T) {
	inWorld(t, func(w *world) {
		var many []*corev1.Pod
		for i := range cachev1.MaxNodes {
			many = append(many, podOfCache(fmt.Sprintf("c%04d", i)))
		}
		w.Stop() // A fake watch holds 100 events.

		w.createPods(many...)
		w.start()
		w.Wait(time.Second)

		nodes := w.backup().Status.Nodes
		expect.Equal(w.t, "number of nodes", cachev1.MaxNodes, len(nodes))
		expect.Equal(w.t, "last node", "c0997", nodes[len(nodes)-1])
		expect.Equal(w.t, "Ready", apimeta.ReasonHealthy, w.ready().Reason)
	})
}

func TestSizeZeroIsReady(t *testing.T) {
	inWorld(t, func(w *world) {
		w.resize(0)
		w.Act(func() error {
			return errors.Join(w.kube.Tracker().Delete(pods, "ns", "a"), w.kube.Tracker().Delete(pods, "ns", "b"))
		})
		w.makePodsReady()
		w.Wait(time.Second)

		expect.Equal(w.t, "Ready", apimeta.ReasonHealthy, w.ready().Reason)
		expect.Equal(w.t, "nodes", []string(nil), w.backup().Status.Nodes)
	})
}

func TestDriftIsCorrected(t *testing.T) {
	inWorld(t, func(w *world) {
		controllertest.Delete(w.World, w.kube.AppsV1().Deployments("ns").Delete, "cache")

		expect.Equal(w.t, "requests", []string{"patch deployments/cache", "patch memcachedbackups/cache status", "event Normal DriftCorrected"}, w.Take())
		expect.Equal(w.t, "replicas", int32(2), *w.deployment().Spec.Replicas)
	})
}

func TestConflictingObjectStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		controllertest.Create(w.World, w.kube.AppsV1().Deployments("ns").Create, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "cache"}})

		w.create()

		expect.Equal(t, "reason", apimeta.ReasonOwnershipConflict, w.ready().Reason)
	})
}

// TestPodsAreRestricted holds the fields of the restricted Pod Security profile, the token,
// requests and limits.
func TestPodsAreRestricted(t *testing.T) {
	inWorld(t, func(w *world) {
		pod := w.deployment().Spec.Template.Spec
		container := pod.Containers[0]

		expect.Equal(w.t, "pod", &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(11211)), RunAsGroup: ptr.To(int64(11211)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}, pod.SecurityContext)
		expect.Equal(w.t, "container", &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}, container.SecurityContext)
		expect.Equal(w.t, "token", ptr.To(false), pod.AutomountServiceAccountToken)
		expect.Equal(w.t, "requests and limits", [2]int{2, 2}, [2]int{len(container.Resources.Requests), len(container.Resources.Limits)})
	})
}
