// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
)

const ownerLabel = "example.com/owner"

// readiness has the readiness of pods, and the owners that changes of pods queued.
type readiness struct {
	*controllertest.World

	t    *testing.T
	kube *controllertest.Kube
	pods child.Readiness

	mu     sync.Mutex
	queued []string
}

func inReadiness(t *testing.T, test func(r *readiness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kube := controllertest.NewKube()
		r := &readiness{World: controllertest.NewWorld(t, kube), t: t, kube: kube}
		queue := controller.New(controller.ReconcilerFunc(func(_ context.Context, key cache.ObjectName, _ controller.Reason) (controller.Result, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.queued = append(r.queued, key.String())
			return controller.Result{}, nil
		}), controller.Options{Name: "readiness"})
		loop := &fakeLoop{queue: queue}
		var err error
		r.pods, err = child.NewReadiness(r, kube, ownerLabel)
		if err := errors.Join(err, r.pods.Watch(loop)); err != nil {
			t.Fatal(err)
		}
		r.Run(func(stop, lead context.Context) error { return queue.Run(stop, lead, loop.synced...) })
		test(r)
	})
}

type fakeLoop struct {
	child.Loop

	queue  *controller.Controller
	synced []controller.NamedSync
}

func (l *fakeLoop) Queue() *controller.Controller                { return l.queue }
func (l *fakeLoop) Await(synced ...controller.NamedSync)         { l.synced = append(l.synced, synced...) }
func (l *fakeLoop) Confirm(context.Context, metav1.Object) error { return nil }

func (l *fakeLoop) ConfirmOnce(context.Context, metav1.Object) error { return nil }
func (r *readiness) key(owner string) cache.ObjectName               { return cache.NewObjectName("ns", owner) }

// takeQueued returns the owners that were queued since the last call.
func (r *readiness) takeQueued() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.queued
	r.queued = nil
	return taken
}

func pod(owner string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", Labels: map[string]string{ownerLabel: owner}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: ready}}},
	}
}

func (r *readiness) create(created *corev1.Pod) {
	r.t.Helper()
	r.Act(func() error {
		_, err := r.kube.CoreV1().Pods("ns").Create(context.Background(), created, metav1.CreateOptions{})
		return err
	})
}

func (r *readiness) update(change func(*corev1.Pod)) {
	r.t.Helper()
	r.Act(func() error {
		found, err := r.kube.CoreV1().Pods("ns").Get(context.Background(), "pod", metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(found)
		_, err1 := r.kube.CoreV1().Pods("ns").Update(context.Background(), found, metav1.UpdateOptions{})
		found.ResourceVersion = ""
		_, err2 := r.kube.CoreV1().Pods("ns").UpdateStatus(context.Background(), found, metav1.UpdateOptions{})
		return errors.Join(err1, err2)
	})
}

func TestReadinessFollowsPod(t *testing.T) {
	inReadiness(t, func(r *readiness) {
		isReady := []bool{r.pods.IsReady("ns", "pod")}
		r.create(pod("db", corev1.ConditionFalse))
		isReady = append(isReady, r.pods.IsReady("ns", "pod"))
		r.update(func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionTrue })
		isReady = append(isReady, r.pods.IsReady("ns", "pod"))
		r.Act(func() error {
			return r.kube.CoreV1().Pods("ns").Delete(t.Context(), "pod", metav1.DeleteOptions{})
		})
		isReady = append(isReady, r.pods.IsReady("ns", "pod"))

		if want := []bool{false, false, true, false}; !slices.Equal(isReady, want) {
			t.Errorf("ready is %v, want %v", isReady, want)
		}
		if got := slices.Compact(r.takeQueued()); !slices.Equal(got, []string{"ns/db"}) {
			t.Errorf("queued %q", got)
		}
	})
}

func TestLabeledObjectQueuesItsOwner(t *testing.T) {
	tests := map[string]struct {
		change func(*corev1.Pod)
		want   []string
	}{
		"a field that is kept":     {func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }, []string{"ns/db"}},
		"a field that is not kept": {func(p *corev1.Pod) { p.Annotations = map[string]string{"theirs": "x"} }, nil},
		"another owner":            {func(p *corev1.Pod) { p.Labels[ownerLabel] = "other" }, []string{"ns/db", "ns/other"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inReadiness(t, func(r *readiness) {
				r.create(pod("db", corev1.ConditionTrue))
				r.takeQueued()

				r.update(test.change)

				got := r.takeQueued()
				slices.Sort(got)
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("queued owners (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestWriteOfLabeledObjectQueuesNothing(t *testing.T) {
	inReadiness(t, func(r *readiness) {
		r.create(pod("db", corev1.ConditionTrue))
		r.takeQueued()

		r.Act(func() error {
			found, err := r.kube.CoreV1().Pods("ns").Get(t.Context(), "pod", metav1.GetOptions{})
			if err != nil {
				return err
			}
			found.Status.Conditions[1].Status = corev1.ConditionFalse
			// The watch could deliver the event before the answer is recorded, so a later version
			// is recorded first.
			written := found.DeepCopy()
			written.ResourceVersion = "1000000"
			r.pods.Wrote(written)
			_, err = r.kube.CoreV1().Pods("ns").UpdateStatus(t.Context(), found, metav1.UpdateOptions{})
			return err
		})

		if got := r.takeQueued(); len(got) > 0 {
			t.Errorf("queued %q", got)
		}
		if r.pods.IsReady("ns", "pod") || len(r.pods.Of(r.key("db"))) != 1 {
			t.Errorf("the own write is not observed: %v", r.pods.Of(r.key("db")))
		}
	})
}
