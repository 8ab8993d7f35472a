// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/postgresql"
	versionedfake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/test/expect"
)

// world is a controller of PostgreSQLs between fake clientsets.
type world struct {
	*controllertest.World

	t        *testing.T
	kube     *controllertest.Kube
	client   *versionedfake.Clientset
	children *child.Set
	backups  *postgresql.Backups
	loop     child.Loop
	// destination is the operator's default.
	destination datastore.DefaultDestination
}

// inWorld runs a test in a world with the PostgreSQL "db" of three servers, which are ready.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(func(*databasev1.PostgreSQL) {})
		w.makeServersReady()
		w.Take()
		test(w)
	})
}

func newWorld(t *testing.T) *world {
	kube, client := controllertest.NewKube(), versionedfake.NewClientset()
	kube.Resources = servedWith("create", "delete", "patch")
	w := &world{World: controllertest.NewWorld(t, kube, client), t: t, kube: kube, client: client}
	w.start()
	return w
}

// servedWith returns the answer of discovery if PostgreSQLs allow these verbs.
func servedWith(verbs ...string) []*metav1.APIResourceList {
	return []*metav1.APIResourceList{{
		GroupVersion: databasev1.SchemeGroupVersion.String(), APIResources: []metav1.APIResource{{Name: "postgresqls", Kind: "PostgreSQL", Verbs: verbs}},
	}}
}

// start starts the controller, as a new process does.
func (w *world) start() {
	w.t.Helper()
	informers, err1 := w.Informers("postgresqls", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(w.client, 0, externalversions.WithNamespace(namespace))
		return factory.Database().V1().PostgreSQLs().Informer(), nil
	})
	observed, err2 := postgresql.NewObserved(w, w.kube)
	children, err3 := child.Builtin(w, w.kube, "ConfigMap", "Secret", "Service", "StatefulSet", "PodDisruptionBudget")
	expect.NoError(w.t, errors.Join(err1, err2, err3))
	w.children, w.backups = child.NewSet(postgresql.Kind, children...).Optional(postgresql.BackupKind), &postgresql.Backups{}
	pull, err4 := images.Parse("", map[string]string{"postgres:17": "mirror.example.com/postgres:17.2"})
	expect.NoError(w.t, err4)
	loop, err := postgresql.New(w.client.DatabaseV1(), w.children, observed, w.backups, pull, "example.org",
		w.destination, kind.Deps{Informers: informers, Recorder: w, Clock: clock.RealClock{}, ResyncPeriod: 10 * time.Hour})
	expect.NoError(w.t, err)
	w.loop = loop
	w.Run(loop.Run)
}

// serveBackups installs the kind Backup.
func (w *world) serveBackups() {
	w.t.Helper()
	informers, err1 := w.Informers("backups", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(w.client, 0, externalversions.WithNamespace(namespace))
		return factory.Backup().V1().Backups().Informer(), nil
	})
	kind, err2 := child.WatchedBy(informers, postgresql.BackupKind, w.client.BackupV1().Backups)
	added, err3 := w.children.Add(w.loop, kind)
	expect.NoError(w.t, errors.Join(err1, err2, err3, w.backups.Add(w.loop, informers)))
	w.Run(added.Run)
}

// create creates the PostgreSQL as admission defaults it.
func (w *world) create(change func(*databasev1.PostgreSQL)) {
	w.t.Helper()
	object := &databasev1.PostgreSQL{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: databasev1.PostgreSQLSpec{
			Version: "16", Storage: "10Gi", Replicas: ptr.To(int32(3)), DeletionPolicy: databasev1.DeletionPolicyRetain,
		},
	}
	change(object)
	controllertest.Create(w.World, w.client.DatabaseV1().PostgreSQLs("ns").Create, object)
}

// change changes the PostgreSQL.
func (w *world) change(change func(*databasev1.PostgreSQL)) {
	w.t.Helper()
	found := w.database()
	change(found)
	controllertest.Update(w.World, w.client.DatabaseV1().PostgreSQLs("ns").Update, found)
}

// remove deletes the PostgreSQL, and plays the garbage collector and the StatefulSet's controller.
func (w *world) remove() {
	w.t.Helper()
	controllertest.Delete(w.World, w.client.DatabaseV1().PostgreSQLs("ns").Delete, "db")
	w.Wait(5 * time.Second) // Discovery shows then whether the CRD is being deleted.
	w.Act(func() error {
		_, err := w.client.DatabaseV1().PostgreSQLs("ns").Get(context.Background(), "db", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the PostgreSQL is still there: %w", err)
		}
		return nil
	})
	w.Act(func() error {
		ctx, core, all := context.Background(), w.kube.CoreV1(), metav1.ListOptions{}
		errs := []error{
			w.kube.AppsV1().StatefulSets("ns").Delete(ctx, "db", metav1.DeleteOptions{}),
			w.kube.PolicyV1().PodDisruptionBudgets("ns").Delete(ctx, "db", metav1.DeleteOptions{}),
			core.ConfigMaps("ns").Delete(ctx, "db-scripts", metav1.DeleteOptions{}),
			core.Pods("ns").DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		}
		for _, name := range []string{"db", "db-read", "db-headless"} {
			errs = append(errs, core.Services("ns").Delete(ctx, name, metav1.DeleteOptions{}))
		}
		return errors.Join(errs...)
	})
}

func (w *world) database() *databasev1.PostgreSQL {
	w.t.Helper()
	return controllertest.Get(w.World, w.client.DatabaseV1().PostgreSQLs("ns").Get, "db")
}

func (w *world) statefulSet() *appsv1.StatefulSet {
	w.t.Helper()
	return controllertest.Get(w.World, w.kube.AppsV1().StatefulSets("ns").Get, "db")
}

// secret returns the Secret; nil for an absent Secret.
func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	var found *corev1.Secret
	w.Act(func() (err error) {
		found, err = w.kube.CoreV1().Secrets("ns").Get(context.Background(), "db-credentials", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			found = nil
			return nil
		}
		return err
	})
	return found
}

func (w *world) createSecret(secret *corev1.Secret) {
	w.t.Helper()
	secret.Name = "db-credentials"
	w.Act(func() error {
		_, err := w.kube.CoreV1().Secrets("ns").Create(context.Background(), secret, metav1.CreateOptions{FieldManager: "user"})
		return err
	})
}

// makeServersReady plays the StatefulSet's controller, the kubelet and the volume controller.
func (w *world) makeServersReady() {
	w.t.Helper()
	for ordinal := range *w.statefulSet().Spec.Replicas {
		w.makeServerReady(int(ordinal))
	}
}

// makeServerReady makes the servers up to this ordinal ready.
func (w *world) makeServerReady(ordinal int) {
	w.t.Helper()
	set := w.statefulSet()
	set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, Replicas: *set.Spec.Replicas, CurrentReplicas: *set.Spec.Replicas, UpdatedReplicas: *set.Spec.Replicas,
		ReadyReplicas: int32(ordinal) + 1, CurrentRevision: "one", UpdateRevision: "one",
	}
	claim := set.Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.Name, claim.Status.Phase = fmt.Sprintf("data-db-%d", ordinal), corev1.ClaimBound
	w.Act(func() error {
		_, err1 := w.kube.CoreV1().PersistentVolumeClaims("ns").Create(context.Background(), claim, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err1) {
			err1 = nil
		}
		_, err2 := w.kube.CoreV1().PersistentVolumeClaims("ns").UpdateStatus(context.Background(), claim, metav1.UpdateOptions{})
		return errors.Join(err1, err2)
	})
	w.Act(func() error {
		_, err := w.kube.AppsV1().StatefulSets("ns").UpdateStatus(context.Background(), set, metav1.UpdateOptions{})
		return err
	})
	w.setPod(ordinal, corev1.ConditionTrue)
	w.Wait(time.Second) // Reports of progress are held for a second.
}

// setReplicas sets how many servers the status of the StatefulSet counts.
func (w *world) setReplicas(existing, available int32) {
	w.t.Helper()
	set := w.statefulSet()
	set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, Replicas: existing, CurrentReplicas: existing, UpdatedReplicas: existing,
		ReadyReplicas: available, AvailableReplicas: available, CurrentRevision: "one", UpdateRevision: "one",
	}
	controllertest.Update(w.World, w.kube.AppsV1().StatefulSets("ns").UpdateStatus, set)
}

// setPod creates or updates the pod with this ordinal.
func (w *world) setPod(ordinal int, ready corev1.ConditionStatus) {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprintf("db-%d", ordinal), Labels: map[string]string{databasev1.LabelPostgreSQL: "db"},
			OwnerReferences: []metav1.OwnerReference{child.Reference(w.statefulSet(), "apps/v1", "StatefulSet")},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
	w.Act(func() error {
		_, err := w.kube.CoreV1().Pods("ns").Create(context.Background(), pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
		_, err2 := w.kube.CoreV1().Pods("ns").UpdateStatus(context.Background(), pod, metav1.UpdateOptions{})
		return errors.Join(err, err2)
	})
}

// setBackup sets the status of the Backup.
func (w *world) setBackup(status metav1.ConditionStatus, message string, last *metav1.Time) {
	w.t.Helper()
	w.Act(func() error {
		found, err := w.client.BackupV1().Backups("ns").Get(context.Background(), "db-backup", metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Status = backupv1.BackupStatus{
			ObservedGeneration: found.Generation, LastSuccessfulTime: last,
			Conditions: []metav1.Condition{{Type: "Ready", Status: status, Message: message, Reason: "Scheduled", ObservedGeneration: found.Generation}},
		}
		_, err = w.client.BackupV1().Backups("ns").UpdateStatus(context.Background(), found, metav1.UpdateOptions{})
		return err
	})
}

// condition returns a condition of the PostgreSQL.
func (w *world) condition(conditionType string) metav1.Condition {
	w.t.Helper()
	found := w.database()
	condition := meta.FindStatusCondition(found.Status.Conditions, conditionType)
	if condition == nil {
		w.t.Fatalf("status has no condition %s: %+v", conditionType, found.Status)
	}
	if condition.ObservedGeneration != found.Generation || found.Status.ObservedGeneration != found.Generation {
		w.t.Fatalf("status of generation %d is %+v", found.Generation, found.Status)
	}
	return *condition
}

func (w *world) ready() metav1.Condition {
	w.t.Helper()
	return w.condition("Ready")
}
