// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ecommerceplatform_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/ecommerceplatform"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/mysql"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/tier"
	versionedfake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/test/expect"
)

// world is a controller of EcommercePlatforms between fake clientsets, which serve neither
// ServiceMonitors nor Backups at first.
type world struct {
	*controllertest.World

	t      *testing.T
	kube   *controllertest.Kube
	client *versionedfake.Clientset

	set  *child.Set
	loop child.Loop
	// destination is the operator's default.
	destination datastore.DefaultDestination
	// monitors counts the applies of ServiceMonitors.
	monitors atomic.Int32
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kube, client := controllertest.NewKube(), versionedfake.NewClientset()
		w := &world{World: controllertest.NewWorld(t, kube, client), t: t, kube: kube, client: client}
		w.start()
		test(w)
	})
}

// inRunningWorld runs a test in a world with the platform "shop", whose components are ready.
func inRunningWorld(t *testing.T, test func(w *world), change ...func(*platformv1.EcommercePlatform)) {
	t.Helper()
	inWorld(t, func(w *world) {
		w.create("shop", change...)
		w.reportComponents()
		w.Wait(time.Minute)
		w.Take()
		test(w)
	})
}

// start starts the controller, as a new process does.
func (w *world) start() {
	w.t.Helper()
	platforms, err1 := w.Informers("EcommercePlatforms", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(w.client, 0, externalversions.WithNamespace(namespace))
		return factory.Platform().V1().EcommercePlatforms().Informer(), nil
	})
	databases, err2 := w.Informers("PostgreSQLs", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(w.client, 0, externalversions.WithNamespace(namespace))
		return factory.Database().V1().PostgreSQLs().Informer(), nil
	})
	postgreSQL, err3 := child.WatchedBy(databases, databasev1.SchemeGroupVersion.WithKind("PostgreSQL"), w.client.DatabaseV1().PostgreSQLs)
	children, err4 := child.Builtin(w, w.kube,
		"ConfigMap", "Service", "Deployment", "StatefulSet", "Ingress", "NetworkPolicy", "PodDisruptionBudget")
	w.set = child.NewSet(ecommerceplatform.Kind, append(children, postgreSQL.WithHealth(tier.DatabaseHealth).KeepUntilChange("spec").WithCondition(tier.BackupConfigured))...).
		Optional(tier.ServiceMonitor, backupv1.SchemeGroupVersion.WithKind("Backup"))
	credentials, err6 := mysql.NewCredentials(w, w.kube, platformv1.LabelPlatform)
	loop, err5 := ecommerceplatform.New(w.client.PlatformV1(), w.set, credentials, map[string]string{"reserved.example.com": "ns"}, images.Table{}, "", w.destination, kind.Deps{
		Informers: platforms, Recorder: w, Clock: clock.RealClock{}, ResyncPeriod: 10 * time.Hour,
	})
	expect.NoError(w.t, errors.Join(err1, err2, err3, err4, err5, err6))
	w.loop = loop
	w.Run(loop.Run)
}

// serveBackups installs the kind Backup.
func (w *world) serveBackups() {
	w.t.Helper()
	informers, err1 := w.Informers("Backups", func(namespace string) (cache.SharedIndexInformer, error) {
		factory := externalversions.NewSharedInformerFactoryWithOptions(w.client, 0, externalversions.WithNamespace(namespace))
		return factory.Backup().V1().Backups().Informer(), nil
	})
	backups, err2 := child.WatchedBy(informers, backupv1.SchemeGroupVersion.WithKind("Backup"), w.client.BackupV1().Backups)
	added, err3 := w.set.Add(w.loop, backups.WithCondition(datastore.Suspended))
	expect.NoError(w.t, errors.Join(err1, err2, err3))
	w.Run(added.Run)
}

// serveMonitors installs the kind ServiceMonitor. The fake dynamic client knows no apply, so a
// reactor stores the object.
func (w *world) serveMonitors() {
	w.t.Helper()
	resource := tier.ServiceMonitor.GroupVersion().WithResource("servicemonitors")
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{resource: "ServiceMonitorList"})
	client.PrependReactor("patch", "servicemonitors", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, ok := action.(clienttesting.PatchAction)
		if !ok {
			return false, nil, nil
		}
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(patch.GetPatch(), &object.Object); err != nil {
			return true, nil, err
		}
		w.monitors.Add(1)
		object.SetUID("monitor")
		object.SetResourceVersion("1000")
		return true, object, client.Tracker().Add(object)
	})
	monitors, err1 := child.Dynamic(w, client, tier.ServiceMonitor, resource)
	added, err2 := w.set.Add(w.loop, monitors)
	expect.NoError(w.t, errors.Join(err1, err2))
	w.Run(added.Run)
}

// create creates a platform in namespace ns, as admission defaults it.
func (w *world) create(name string, change ...func(*platformv1.EcommercePlatform)) {
	w.t.Helper()
	p := newPlatform(name, change...)
	controllertest.Create(w.World, w.client.PlatformV1().EcommercePlatforms(p.Namespace).Create, p)
}

func newPlatform(name string, change ...func(*platformv1.EcommercePlatform)) *platformv1.EcommercePlatform {
	p := &platformv1.EcommercePlatform{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: platformv1.EcommercePlatformSpec{
			Environment: platformv1.EnvironmentDevelopment,
			Frontend:    platformv1.PlatformComponent{Image: "frontend:1", Replicas: ptr.To[int32](1)},
			Backend:     platformv1.PlatformComponent{Image: "backend:1", Replicas: ptr.To[int32](2)},
			Database:    platformv1.PlatformDatabase{Type: platformv1.DatabasePostgreSQL},
			Cache:       platformv1.PlatformCache{Enabled: ptr.To(true)},
			Monitoring:  platformv1.PlatformMonitoring{Enabled: ptr.To(true)},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// Changes of a platform.
func inProduction(p *platformv1.EcommercePlatform) {
	p.Spec.Environment = platformv1.EnvironmentProduction
}

func withMySQL(p *platformv1.EcommercePlatform) { p.Spec.Database.Type = platformv1.DatabaseMySQL }

func withBackups(p *platformv1.EcommercePlatform) {
	p.Spec.Database.Backup = &platformv1.PlatformBackup{Enabled: ptr.To(true), Destination: &backupv1.Destination{
		Type: backupv1.DestinationS3, Bucket: "dumps", CredentialsSecret: "bucket",
	}}
}

func withHost(host string) func(*platformv1.EcommercePlatform) {
	return func(p *platformv1.EcommercePlatform) { p.Spec.Ingress = &platformv1.PlatformIngress{Host: host} }
}

func inNamespace(namespace string) func(*platformv1.EcommercePlatform) {
	return func(p *platformv1.EcommercePlatform) { p.Namespace = namespace }
}

// change changes the platform "shop".
func (w *world) change(change func(*platformv1.EcommercePlatform)) {
	w.t.Helper()
	found := w.platform("ns", "shop")
	change(found)
	controllertest.Update(w.World, w.client.PlatformV1().EcommercePlatforms("ns").Update, found)
}

func (w *world) platform(namespace, name string) *platformv1.EcommercePlatform {
	w.t.Helper()
	return controllertest.Get(w.World, w.client.PlatformV1().EcommercePlatforms(namespace).Get, name)
}

// condition is a condition of a platform; an empty one if the platform does not have it.
func (w *world) condition(namespace, name, conditionType string) metav1.Condition {
	w.t.Helper()
	found := meta.FindStatusCondition(w.platform(namespace, name).Status.Conditions, conditionType)
	if found == nil {
		return metav1.Condition{}
	}
	return *found
}

// ready is the condition Ready of the platform "shop".
func (w *world) ready() metav1.Condition {
	w.t.Helper()
	found := w.platform("ns", "shop")
	return w.Ready(found.Generation, found.Status.ObservedGeneration, found.Status.Conditions)
}

// Conditions that a PostgreSQL reports.
var (
	databaseReady    = metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Healthy"}
	databaseStarting = metav1.Condition{Type: "Reconciling", Status: metav1.ConditionTrue, Reason: "Progressing", Message: "servers start"}
	databaseStalled  = metav1.Condition{
		Type: "Stalled", Status: metav1.ConditionTrue, Reason: databasev1.ReasonStorageShrinks, Message: "spec.storage: 10Gi is less than the volumes have",
	}
)

// reportDatabase plays the controller of PostgreSQLs.
func (w *world) reportDatabase(conditions ...metav1.Condition) {
	w.t.Helper()
	databases := w.client.DatabaseV1().PostgreSQLs("ns")
	w.Act(func() error {
		found, err := databases.Get(context.Background(), "shop-db", metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Status.ObservedGeneration, found.Status.Conditions = found.Generation, conditions
		_, err = databases.UpdateStatus(context.Background(), found, metav1.UpdateOptions{})
		return err
	})
}

// reportPods plays the controller of Deployments.
func (w *world) reportPods(name string, available corev1.ConditionStatus) {
	w.t.Helper()
	deployments := w.kube.AppsV1().Deployments("ns")
	w.Act(func() error {
		found, err := deployments.Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		replicas := *found.Spec.Replicas
		found.Status = appsv1.DeploymentStatus{
			ObservedGeneration: found.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas,
			AvailableReplicas: replicas,
			Conditions:        []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: available}},
		}
		_, err = deployments.UpdateStatus(context.Background(), found, metav1.UpdateOptions{})
		return err
	})
}

// reportComponents makes the components of the platform "shop" ready, one after another.
func (w *world) reportComponents() {
	w.t.Helper()
	w.reportDatabase(databaseReady)
	for _, name := range []string{"shop-cache", "shop-backend", "shop-frontend"} {
		w.reportPods(name, corev1.ConditionTrue)
	}
}
