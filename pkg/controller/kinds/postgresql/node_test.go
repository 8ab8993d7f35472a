// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/test/expect"
)

// loseNode treats the pod as Kubernetes treats the pod of a node that no longer answers: the pod
// gets a deletion time at the end of its grace period, and stays. ready is the last report of the
// kubelet.
func (w *world) loseNode(ordinal int, grace time.Duration, ready corev1.ConditionStatus) {
	w.t.Helper()
	w.setPod(ordinal, ready)
	w.Act(func() error {
		found, err := w.kube.CoreV1().Pods("ns").Get(context.Background(), "db-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Spec.NodeName, found.Finalizers = "node-a", []string{"test/kept"}
		found.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Add(grace)))
		found.ResourceVersion = "999" // Clients cannot set a deletion time.
		return w.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), found, "ns")
	})
	w.Wait(time.Second)
}

// TestPrimaryOfLostNode: the StatefulSet does not replace the pod, so a person must act.
func TestPrimaryOfLostNode(t *testing.T) {
	// The readiness of the pod stays as it was if nothing reports that the node is lost.
	for name, ready := range map[string]corev1.ConditionStatus{"reported": corev1.ConditionFalse, "not reported": corev1.ConditionTrue} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if ready == corev1.ConditionFalse {
					w.makeStatefulSetReady(2)
				}

				w.loseNode(0, 2*time.Minute, ready)

				expect.Equal(w.t, "within the grace period", [2]string{databasev1.PhaseDegraded, databasev1.ReasonUnavailable},
					[2]string{w.database().Status.Phase, w.condition(databasev1.ConditionDatabaseReady).Reason})
				w.Wait(3 * time.Minute)
				expect.Equal(w.t, "after the grace period", [2]string{databasev1.PhaseDegraded, databasev1.ReasonNodeLost},
					[2]string{w.database().Status.Phase, w.condition(databasev1.ConditionDatabaseReady).Reason})
				expect.Equal(w.t, "Ready", databasev1.ReasonNodeLost, w.ready().Reason)
				for _, command := range []string{
					"kubectl taint node node-a node.kubernetes.io/out-of-service=nodeshutdown:NoExecute", "kubectl delete pod db-0 -n ns --force",
					"docs/postgresql.md#failover",
				} {
					if message := w.ready().Message; !strings.Contains(message, command) {
						w.t.Errorf("message is %q, want %q in it", message, command)
					}
				}
				w.Take()
				w.Wait(time.Hour)
				expect.Equal(w.t, "requests at rest", []string(nil), w.Take())
			})
		})
	}
}

// TestUnusedClaims: the volumes of removed servers are reported, and never deleted.
func TestUnusedClaims(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Replicas = ptr.To(int32(1)) })
		expect.Equal(t, "after a decrease", []string{"data-db-1", "data-db-2"}, w.database().Status.UnusedClaims)

		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Replicas = ptr.To(int32(2)) })
		expect.Equal(t, "after an increase", []string{"data-db-2"}, w.database().Status.UnusedClaims)

		w.Act(func() error {
			return w.kube.CoreV1().PersistentVolumeClaims("ns").Delete(t.Context(), "data-db-2", metav1.DeleteOptions{})
		})
		w.Wait(time.Second)
		expect.Equal(t, "after a deletion by the user", []string(nil), w.database().Status.UnusedClaims)
	})
}

// TestPartsHaveLabelsOfApplication: no template has them, so that no pod rolls.
func TestPartsHaveLabelsOfApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.serveBackups()
		labels := map[string]string{"platform": "shop", "component": "database"}

		w.create(func(p *databasev1.PostgreSQL) {
			withBackup(p)
			p.Labels = map[string]string{"platform": "shop", "component": "database", "other": "label"}
		})
		w.makeServersReady()

		ctx, core, all := t.Context(), w.kube.CoreV1(), metav1.ListOptions{LabelSelector: "platform=shop,component=database"}
		pods, err1 := core.Pods("ns").List(ctx, all)
		claims, err2 := core.PersistentVolumeClaims("ns").List(ctx, all)
		secrets, err3 := core.Secrets("ns").List(ctx, all)
		configMaps, err4 := core.ConfigMaps("ns").List(ctx, all)
		services, err5 := core.Services("ns").List(ctx, all)
		budgets, err6 := w.kube.PolicyV1().PodDisruptionBudgets("ns").List(ctx, all)
		backups, err7 := w.client.BackupV1().Backups("ns").List(ctx, all)
		expect.NoError(t, errors.Join(err1, err2, err3, err4, err5, err6, err7))
		expect.Equal(t, "labeled objects", [7]int{3, 3, 1, 1, 3, 1, 1}, [7]int{
			len(pods.Items), len(claims.Items), len(secrets.Items), len(configMaps.Items), len(services.Items), len(budgets.Items), len(backups.Items),
		})
		set := w.statefulSet()
		own := map[string]string{databasev1.LabelPostgreSQL: "db"}
		expect.Equal(t, "labels of the templates", [3]map[string]string{own, own, own},
			[3]map[string]string{set.Spec.Selector.MatchLabels, set.Spec.Template.Labels, set.Spec.VolumeClaimTemplates[0].Labels})
		for name, value := range labels {
			expect.Equal(t, name+" of the StatefulSet", value, set.Labels[name])
		}
		expect.Equal(t, "other labels of the StatefulSet", "", set.Labels["other"])
		w.Take()
		w.Wait(9 * time.Hour)
		expect.Equal(t, "requests at rest", []string(nil), w.Take())
	})
}

// ofPlatform makes a PostgreSQL a part of a platform. A change of labels alone starts no pass.
func ofPlatform(p *databasev1.PostgreSQL) {
	p.Labels = map[string]string{"platform": "shop"}
	p.Spec.Parameters = map[string]databasev1.ParameterValue{"work_mem": "8MB"}
}

// TestOnlyOwnObjectsGetLabels: anyone can create an object with the label of a database.
func TestOnlyOwnObjectsGetLabels(t *testing.T) {
	inWorld(t, func(w *world) {
		own, controller := map[string]string{databasev1.LabelPostgreSQL: "db"}, true
		other := metav1.ObjectMeta{Namespace: "ns", Name: "other", Labels: own, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "other", Controller: &controller},
		}}
		secret := metav1.ObjectMeta{Namespace: "ns", Name: "other", Labels: map[string]string{
			databasev1.LabelPostgreSQL: "db", child.ManagedByLabel: child.FieldManager,
		}}
		controllertest.Create(w.World, w.kube.CoreV1().Pods("ns").Create, &corev1.Pod{ObjectMeta: other})
		controllertest.Create(w.World, w.kube.CoreV1().PersistentVolumeClaims("ns").Create, &corev1.PersistentVolumeClaim{ObjectMeta: other})
		controllertest.Create(w.World, w.kube.CoreV1().Secrets("ns").Create, &corev1.Secret{ObjectMeta: secret})
		w.Take()

		w.change(ofPlatform)

		var labeled []string
		for _, request := range w.Take() {
			if strings.HasPrefix(request, "patch pods/") || strings.HasPrefix(request, "patch persistentvolumeclaims/") || strings.HasPrefix(request, "patch secrets/") {
				labeled = append(labeled, request)
			}
		}
		slices.Sort(labeled)
		expect.Equal(t, "labeled objects", []string{
			"patch persistentvolumeclaims/data-db-0", "patch persistentvolumeclaims/data-db-1", "patch persistentvolumeclaims/data-db-2",
			"patch pods/db-0", "patch pods/db-1", "patch pods/db-2", "patch secrets/db-credentials",
		}, labeled)
	})
}

// TestRefusedLabelsDoNotStopPass: labels of pods matter less than the servers. The refusal is
// logged, and not repeated at rest.
func TestRefusedLabelsDoNotStopPass(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Refuse(func(request string) error {
			if request == "patch pods/db-1" {
				return apierrors.NewForbidden(corev1.Resource("pods"), "db-1", errors.New("by a policy"))
			}
			return nil
		})

		w.change(ofPlatform)
		w.Wait(time.Second)

		expect.Equal(t, "Ready", metav1.ConditionTrue, w.ready().Status)
		pod := controllertest.Get(w.World, w.kube.CoreV1().Pods("ns").Get, "db-2")
		expect.Equal(t, "label of another pod", "shop", pod.Labels["platform"])
		if !strings.Contains(w.Log(), "The labels of the owner were refused") {
			t.Error("the refusal is not logged")
		}
		w.Take()
		w.Wait(9 * time.Hour)
		expect.Equal(t, "requests at rest", []string(nil), w.Take())
	})
}

// TestRemovedLabelsAreSetAtGrowingIntervals: two clients that disagree must not write in a tight
// loop.
func TestRemovedLabelsAreSetAtGrowingIntervals(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(ofPlatform)
		pods := w.kube.CoreV1().Pods("ns")
		w.Take()

		writes := 0
		for range 600 { // Each takes a tenth of a second.
			if pod := controllertest.Get(w.World, pods.Get, "db-1"); pod.Labels["platform"] != "" {
				delete(pod.Labels, "platform")
				controllertest.Update(w.World, pods.Update, pod)
			}
			writes += len(w.Take())
		}

		if writes > 12 {
			t.Errorf("%d writes in a minute", writes)
		}
		w.Wait(5 * time.Minute)
		expect.Equal(t, "label in the end", "shop", controllertest.Get(w.World, pods.Get, "db-1").Labels["platform"])
	})
}

// TestSecretOfUserGetsNoLabels: the operator adds missing keys to it, and changes nothing else.
func TestSecretOfUserGetsNoLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createSecret(&corev1.Secret{ObjectMeta: consent("db"), Data: map[string][]byte{databasev1.KeyPassword: []byte("theirs")}})

		w.create(func(p *databasev1.PostgreSQL) { p.Labels = map[string]string{"platform": "shop"} })

		expect.Equal(t, "labels", consent("db").Labels, w.secret().Labels)
	})
}

// TestSecretWithoutLabelOutlivesDeletion: the operator does not watch the Secret any more, so the
// event must not report that it was deleted.
func TestSecretWithoutLabelOutlivesDeletion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.DeletionPolicy = databasev1.DeletionPolicyDelete })
		secret := w.secret()
		secret.Labels = nil
		controllertest.Update(w.World, w.kube.CoreV1().Secrets("ns").Update, secret)
		w.Take()

		w.remove()

		if w.secret() == nil {
			t.Error("the Secret was deleted")
		}
		if requests := w.Take(); !slices.Contains(requests, "event Normal VolumesDeleted") {
			t.Errorf("requests and events are %q", requests)
		}
	})
}

// TestPodThatDoesNotStart: the StatefulSet says nothing of the cause.
func TestPodThatDoesNotStart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.makeStatefulSetReady(1)
		controller := true
		controllertest.Create(w.World, w.kube.CoreV1().Pods("ns").Create, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "db-7", Labels: map[string]string{databasev1.LabelPostgreSQL: "db"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", Controller: &controller}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available"},
			}},
		})
		w.Wait(time.Minute)

		expect.Contains(w.t, "message", w.ready().Message, "pod db-7: Unschedulable: 0/3 nodes are available; reduce the requests")
	})
}

// TestPodThatWaitsForMount: only events of the pod have the reason. They are listed, at growing
// intervals.
func TestPodThatWaitsForMount(t *testing.T) {
	inWorld(t, func(w *world) {
		w.makeStatefulSetReady(2)
		pod := controllertest.Get(w.World, w.kube.CoreV1().Pods("ns").Get, "db-2")
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()},
		}}
		controllertest.Update(w.World, w.kube.CoreV1().Pods("ns").UpdateStatus, pod)
		w.Take()

		w.Wait(2 * time.Minute) // No event of a watch follows.

		expect.Contains(w.t, "message", w.ready().Message, "pod db-2: ContainerCreating: waits for its volumes or its network for more than a minute; kubectl describe")
		controllertest.Create(w.World, w.kube.CoreV1().Events("ns").Create, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-2.1"}, InvolvedObject: corev1.ObjectReference{UID: pod.UID},
			Type: corev1.EventTypeWarning, Reason: "FailedMount", Message: `secret "theirs" not found`, LastTimestamp: metav1.Now(),
		})
		w.Wait(20 * time.Minute)
		expect.Contains(w.t, "message", w.ready().Message, `pod db-2: FailedMount: secret "theirs" not found; create what is missing, or correct its name`)
		w.Take()
		w.Wait(9 * time.Hour)
		expect.Equal(w.t, "writes at rest", []string(nil), slices.DeleteFunc(w.Take(), func(request string) bool { return strings.HasPrefix(request, "list events") }))
	})
}

// TestSuspendedBackup: the Backup itself is Ready, and makes no backups.
func TestSuspendedBackup(t *testing.T) {
	inWorld(t, func(w *world) {
		w.serveBackups()
		w.change(withBackup)
		w.setBackup(metav1.ConditionTrue, "", nil)
		suspend := func(suspended bool) {
			backups := w.client.BackupV1().Backups("ns")
			found := controllertest.Get(w.World, backups.Get, "db-backup")
			found.Spec.Suspend = suspended
			controllertest.Update(w.World, backups.Update, found)
			w.setBackup(metav1.ConditionTrue, "", nil)
			w.Wait(time.Second)
		}

		suspend(true)

		configured := w.condition(databasev1.ConditionBackupConfigured)
		expect.Equal(w.t, "BackupConfigured", [2]string{databasev1.ReasonBackupNotReady, `Backup "db-backup" is suspended: set its spec.suspend to false`},
			[2]string{configured.Reason, configured.Message})
		expect.Equal(w.t, "Ready", metav1.ConditionFalse, w.ready().Status)
		suspend(false)
		expect.Equal(w.t, "BackupConfigured when resumed", databasev1.ReasonBackupReady, w.condition(databasev1.ConditionBackupConfigured).Reason)
		expect.Equal(w.t, "Ready when resumed", metav1.ConditionTrue, w.ready().Status)
	})
}
