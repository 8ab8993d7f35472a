// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ecommerceplatform_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/test/expect"
)

// TestRequestBudget holds how many requests a platform costs in its life. Its creation costs its
// children and two statuses.
func TestRequestBudget(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create("shop", withHost("shop.example.com"))
		expect.Equal(t, "requests of the creation", []string{
			"patch postgresqls/shop-db", "patch ecommerceplatforms/shop status", "event Normal Created",
		}, w.Take())
		w.reportDatabase(databaseReady)
		expect.Equal(t, "requests when the database is ready", []string{"patch deployments/shop-cache", "patch services/shop-cache"}, w.Take())
		w.reportPods("shop-cache", corev1.ConditionTrue)
		expect.Equal(t, "requests when the cache is ready", []string{"patch deployments/shop-backend", "patch services/shop-backend"}, w.Take())
		w.reportPods("shop-backend", corev1.ConditionTrue)
		expect.Equal(t, "requests when the backend is ready", []string{"patch deployments/shop-frontend", "patch services/shop-frontend"}, w.Take())
		w.reportPods("shop-frontend", corev1.ConditionTrue)
		expect.Equal(t, "requests when the frontend is ready", []string{
			"patch configmaps/shop-dashboard", "patch ingresses/shop", "patch ecommerceplatforms/shop status", "event Normal Healthy",
		}, w.Take())

		w.Wait(9 * time.Hour)
		expect.Equal(t, "requests at rest", []string(nil), w.Take())
		w.Stop()
		w.start()
		expect.Equal(t, "requests of a restart", []string(nil), w.Take())
	})
}

func TestDriftIsCorrected(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		controllertest.Delete(w.World, w.kube.CoreV1().Services("ns").Delete, "shop-backend")

		expect.Equal(t, "requests", []string{
			"patch services/shop-backend", "patch ecommerceplatforms/shop status", "event Normal DriftCorrected",
		}, w.Take())
	})
}

func TestStatus(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		status := w.platform("ns", "shop").Status

		expect.Equal(t, "phase", childv1alpha1.PhaseRunning, status.Phase)
		expect.Equal(t, "host", "shop.example.com", status.Host)
		expect.Equal(t, "endpoints", platformv1.PlatformEndpoints{
			Database: "shop-db.ns.svc.cluster.local:5432", Cache: "shop-cache.ns.svc.cluster.local:6379",
			Backend: "shop-backend.ns.svc.cluster.local:8080", Frontend: "http://shop.example.com",
		}, status.Endpoints)
		for _, condition := range []string{"DatabaseReady", "CacheReady", "BackendReady", "FrontendReady", "IngressReady", "Ready"} {
			expect.Equal(t, condition, metav1.ConditionTrue, w.condition("ns", "shop", condition).Status)
		}
	}, withHost("shop.example.com"))
}

func TestPhases(t *testing.T) {
	tests := map[string]struct {
		change func(w *world)
		phase  string
		reason string
	}{
		"all components are ready":      {func(*world) {}, childv1alpha1.PhaseRunning, apimeta.ReasonHealthy},
		"the backend loses its pods":    {func(w *world) { w.reportPods("shop-backend", corev1.ConditionFalse) }, childv1alpha1.PhaseDegraded, childv1alpha1.ReasonDegraded},
		"the database loses a server":   {func(w *world) { w.reportDatabase(databaseStarting) }, childv1alpha1.PhaseDegraded, childv1alpha1.ReasonDegraded},
		"a new image rolls out":         {func(w *world) { w.change(func(p *platformv1.EcommercePlatform) { p.Spec.Backend.Image = "backend:2" }) }, childv1alpha1.PhaseDeploying, apimeta.ReasonProgressing},
		"the database refuses a change": {func(w *world) { w.reportDatabase(databaseStalled) }, childv1alpha1.PhaseFailed, apimeta.ReasonUnhealthy},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inRunningWorld(t, func(w *world) {
				test.change(w)
				w.Wait(time.Minute)

				expect.Equal(w.t, "phase", test.phase, w.platform("ns", "shop").Status.Phase)
				expect.Equal(w.t, "reason", test.reason, w.ready().Reason)
			})
		})
	}
}

// TestStorageNeverShrinks: the database refuses less storage, and the message names the fields of
// the platform.
func TestStorageNeverShrinks(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		w.change(func(p *platformv1.EcommercePlatform) { p.Spec.Environment = platformv1.EnvironmentDevelopment })
		w.reportDatabase(databaseStalled)
		w.Wait(time.Minute)

		message := w.condition("ns", "shop", "DatabaseReady").Message
		for _, part := range []string{"spec.storage: 10Gi is less", "spec.environment development requests 10Gi", "set spec.database.storage to their size"} {
			if !strings.Contains(message, part) {
				t.Errorf("message is %q, want %q in it", message, part)
			}
		}
	}, inProduction)
}

func TestEnvironmentScalesUp(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		w.change(inProduction)

		expect.Equal(t, "requests", []string{
			"patch postgresqls/shop-db", "patch networkpolicies/shop-database",
			"patch deployments/shop-cache", "patch networkpolicies/shop-cache",
			"patch deployments/shop-backend", "patch poddisruptionbudgets/shop-backend", "patch networkpolicies/shop-backend",
			"patch deployments/shop-frontend", "patch networkpolicies/shop-frontend",
			"patch ecommerceplatforms/shop status", "event Warning NoDestination",
		}, w.Take())

		w.reportComponents()
		w.Wait(time.Minute)
		w.Take()
		w.change(func(p *platformv1.EcommercePlatform) { p.Spec.Environment = platformv1.EnvironmentStaging })

		policies, err := w.kube.NetworkingV1().NetworkPolicies("ns").List(t.Context(), metav1.ListOptions{})
		expect.NoError(t, err)
		expect.Equal(t, "NetworkPolicies in staging", 0, len(policies.Items))
	})
}

func TestSwitchedOffComponentsAreRemoved(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		w.change(func(p *platformv1.EcommercePlatform) {
			p.Spec.Cache.Enabled, p.Spec.Monitoring.Enabled, p.Spec.Ingress = ptr.To(false), ptr.To(false), nil
		})
		w.reportPods("shop-backend", corev1.ConditionTrue)

		status := w.platform("ns", "shop").Status
		expect.Equal(t, "host", "", status.Host)
		expect.Equal(t, "phase", childv1alpha1.PhaseRunning, status.Phase)
		for _, condition := range []string{"CacheReady", "MonitoringReady", "IngressReady"} {
			expect.Equal(t, condition, metav1.Condition{}, w.condition("ns", "shop", condition))
		}
		deployments, err := w.kube.AppsV1().Deployments("ns").List(t.Context(), metav1.ListOptions{})
		expect.NoError(t, err)
		expect.Equal(t, "Deployments", 2, len(deployments.Items))
	}, withHost("shop.example.com"))
}

func TestServiceMonitorsComeLater(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		before := w.condition("ns", "shop", "MonitoringReady")
		expect.Equal(t, "MonitoringReady before", platformv1.ReasonNotServed, before.Reason)
		expect.Equal(t, "Ready before", metav1.ConditionTrue, w.ready().Status)

		w.serveMonitors()

		expect.Equal(t, "ServiceMonitors", int32(1), w.monitors.Load())
		expect.Equal(t, "MonitoringReady", metav1.ConditionTrue, w.condition("ns", "shop", "MonitoringReady").Status)
		expect.Equal(t, "requests", []string{"patch ecommerceplatforms/shop status"}, w.Take())
	})
}

// reportBackup plays the controller of Backups.
func (w *world) reportBackup(condition metav1.Condition) {
	w.t.Helper()
	backups := w.client.BackupV1().Backups("ns")
	w.Act(func() error {
		found, err := backups.Get(w.t.Context(), "shop-db-backup", metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Status.ObservedGeneration, found.Status.Conditions = found.Generation, []metav1.Condition{condition}
		_, err = backups.UpdateStatus(w.t.Context(), found, metav1.UpdateOptions{})
		return err
	})
}

// suspendBackup suspends or resumes the Backup, whose controller then reports that it is Ready.
func (w *world) suspendBackup(suspended bool) {
	w.t.Helper()
	backups := w.client.BackupV1().Backups("ns")
	found := controllertest.Get(w.World, backups.Get, "shop-db-backup")
	found.Spec.Suspend = suspended
	controllertest.Update(w.World, backups.Update, found)
	w.reportBackup(metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue})
}

// backupConfigured is the condition BackupConfigured that a PostgreSQL reports.
func backupConfigured(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: databasev1.ConditionBackupConfigured, Status: status, Reason: reason, Message: message}
}

func TestBackupConfigured(t *testing.T) {
	const made = `Backups are made at 0 2 * * * and kept for 30d: Backup "shop-db-backup" is Ready`
	type changes = []func(*platformv1.EcommercePlatform)
	tests := map[string]struct {
		change          changes
		report          func(w *world)
		status          metav1.ConditionStatus
		reason, message string
	}{
		"off in development": {
			nil, func(w *world) { w.reportDatabase(databaseReady) }, metav1.ConditionFalse, platformv1.ReasonBackupsOff, "Backups are off",
		},
		"on without a destination": {
			changes{inProduction},
			func(w *world) { w.reportDatabase(databaseReady) },
			metav1.ConditionFalse, platformv1.ReasonNoDestination, "spec.database.backup.destination: is missing",
		},
		"before the database reports": {
			changes{withBackups}, func(*world) {}, metav1.ConditionUnknown, databasev1.ReasonWaitingForDatabase, "has not reported",
		},
		"after a report on an older generation": {
			changes{withBackups}, func(w *world) {
				w.reportDatabase(databaseReady, backupConfigured(metav1.ConditionTrue, databasev1.ReasonBackupReady, ""))
				w.change(func(p *platformv1.EcommercePlatform) { p.Spec.Database.Backup.Schedule = "@daily" })
			}, metav1.ConditionUnknown, databasev1.ReasonWaitingForDatabase, "has not reported",
		},
		"made by the database": {
			changes{withBackups}, func(w *world) {
				w.reportDatabase(databaseReady, backupConfigured(metav1.ConditionTrue, databasev1.ReasonBackupReady, ""))
			}, metav1.ConditionTrue, platformv1.ReasonConfigured, made,
		},
		"refused by the Backup of the database": {
			changes{withBackups}, func(w *world) {
				w.reportDatabase(databaseReady, backupConfigured(metav1.ConditionTrue, databasev1.ReasonBackupReady, ""))
				w.reportDatabase(databaseReady, backupConfigured(metav1.ConditionFalse, databasev1.ReasonBackupNotReady,
					`Backup "shop-db-backup" is not Ready: spec.backup.schedule: is no schedule`))
			}, metav1.ConditionFalse, databasev1.ReasonBackupNotReady, "is not Ready: spec.database.backup.schedule: is no schedule",
		},
		"of a mysql without the kind": {
			changes{withMySQL, withBackups}, (*world).reportMySQL, metav1.ConditionFalse, platformv1.ReasonNotServed, "install the kind Backup",
		},
		"of a mysql that is not ready": {
			changes{withMySQL, withBackups},
			(*world).serveBackups,
			metav1.ConditionFalse, childv1alpha1.ReasonWaitingForComponent, "Waits for database",
		},
		"of a mysql": {
			changes{withMySQL, withBackups}, func(w *world) {
				w.serveBackups()
				w.reportMySQL()
				w.reportBackup(metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue})
			}, metav1.ConditionTrue, platformv1.ReasonConfigured, made,
		},
		"refused by the Backup of a mysql": {
			changes{withMySQL, withBackups}, func(w *world) {
				w.serveBackups()
				w.reportMySQL()
				w.reportBackup(metav1.Condition{Type: "Stalled", Status: metav1.ConditionTrue, Message: "spec.schedule: is no schedule"})
			}, metav1.ConditionFalse, apimeta.ReasonUnhealthy, `Backup "shop-db-backup": spec.database.backup.schedule: is no schedule`,
		},
		"refused by a mysql": {
			changes{withMySQL, withBackups}, func(w *world) {
				w.serveBackups()
				w.reportMySQL()
				w.reportBackup(metav1.Condition{Type: "Stalled", Status: metav1.ConditionTrue, Message: "spec.source.connection: the database refuses the login"})
			}, metav1.ConditionFalse, apimeta.ReasonUnhealthy, `Backup "shop-db-backup": the database refuses the login`,
		},
		"of a mysql whose Backup is suspended": {
			changes{withMySQL, withBackups}, func(w *world) {
				w.serveBackups()
				w.reportMySQL()
				w.reportBackup(metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue})
				w.suspendBackup(true)
			}, metav1.ConditionFalse, databasev1.ReasonBackupNotReady, `Backup "shop-db-backup" is suspended: set its spec.suspend to false`,
		},
		"of a mysql whose Backup is resumed": {
			changes{withMySQL, withBackups}, func(w *world) {
				w.serveBackups()
				w.reportMySQL()
				w.reportBackup(metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue})
				w.suspendBackup(true)
				w.suspendBackup(false)
			}, metav1.ConditionTrue, platformv1.ReasonConfigured, made,
		},
		"of a mysql whose Backup belongs to others": {
			changes{withMySQL, withBackups}, func(w *world) {
				controllertest.Create(w.World, w.client.BackupV1().Backups("ns").Create, &backupv1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "shop-db-backup"}})
				w.serveBackups()
				w.reportMySQL()
			}, metav1.ConditionFalse, apimeta.ReasonOwnershipConflict, `Backup "shop-db-backup"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.create("shop", test.change...)
				test.report(w)
				w.Wait(time.Minute)

				got := w.condition("ns", "shop", platformv1.ConditionBackupConfigured)

				expect.Equal(w.t, "status", test.status, got.Status)
				expect.Equal(w.t, "reason", test.reason, got.Reason)
				if !strings.Contains(got.Message, test.message) {
					w.t.Errorf("message is %q, want %q in it", got.Message, test.message)
				}
			})
		})
	}
}

// TestBackupsWithoutDestination: the platform is Ready, unless it requires backups. The PostgreSQL
// gets backups without a destination, so that it has the operator's default when there is one.
func TestBackupsWithoutDestination(t *testing.T) {
	inRunningWorld(t, func(w *world) {
		database, err := w.client.DatabaseV1().PostgreSQLs("ns").Get(t.Context(), "shop-db", metav1.GetOptions{})
		expect.NoError(t, err)
		expect.Equal(t, "backups of the PostgreSQL", databasev1.PostgreSQLBackup{Enabled: true, Schedule: "0 2 * * *", Retention: "30d"}, *database.Spec.Backup)
		expect.Equal(t, "Ready", metav1.ConditionTrue, w.ready().Status)
		expect.Equal(t, "phase", childv1alpha1.PhaseRunning, w.platform("ns", "shop").Status.Phase)

		w.change(func(p *platformv1.EcommercePlatform) {
			p.Spec.Database.Backup = &platformv1.PlatformBackup{Required: true}
		})
		w.reportDatabase(databaseReady)

		ready := w.ready()
		expect.Equal(t, "Ready if backups are required", [2]string{"False", platformv1.ReasonNoDestination}, [2]string{string(ready.Status), ready.Reason})
		expect.Equal(t, "phase", childv1alpha1.PhaseFailed, w.platform("ns", "shop").Status.Phase)

		w.change(func(p *platformv1.EcommercePlatform) {
			p.Spec.Database.Backup = &platformv1.PlatformBackup{Enabled: ptr.To(false)}
		})
		w.reportDatabase(databaseReady)
		expect.Equal(t, "Ready without backups by decision of the user", metav1.ConditionTrue, w.ready().Status)
	}, inProduction)
}

// TestUnmadeBackupsWarn: a Warning says once that nothing is backed up.
func TestUnmadeBackupsWarn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create("shop", inProduction)
		w.reportComponents()
		w.Wait(time.Minute)

		warnings := 0
		for _, request := range w.Take() {
			if request == "event Warning NoDestination" {
				warnings++
			}
		}
		expect.Equal(t, "warnings", 1, warnings)
	})
}

// TestDefaultDestinationOfPlatforms: a mysql gets the operator's default from the platform, and a
// PostgreSQL has it itself. A PostgreSQL of an earlier version keeps its spec.
func TestDefaultDestinationOfPlatforms(t *testing.T) {
	byDefault, err := datastore.ParseDestination(map[string]string{"type": "s3", "bucket": "backups"})
	expect.NoError(t, err)
	withDefault := func(w *world) {
		w.Stop()
		w.destination = byDefault
		w.start()
	}
	t.Run("mysql", func(t *testing.T) {
		inWorld(t, func(w *world) {
			withDefault(w)
			w.serveBackups()
			w.create("shop", inProduction, withMySQL)
			w.reportMySQL()
			w.Wait(time.Minute)

			backup := controllertest.Get(w.World, w.client.BackupV1().Backups("ns").Get, "shop-db-backup")
			expect.Equal(t, "destination", backupv1.Destination{Type: "s3", Bucket: "backups", Prefix: "ns"}, backup.Spec.Destination)
		})
	})
	t.Run("postgresql", func(t *testing.T) {
		inRunningWorld(t, func(w *world) {
			withDefault(w)
			w.reportDatabase(databaseReady, backupConfigured(metav1.ConditionTrue, databasev1.ReasonBackupReady, ""))

			configured := w.condition("ns", "shop", platformv1.ConditionBackupConfigured)
			expect.Equal(t, "BackupConfigured", platformv1.ReasonConfigured, configured.Reason)

			w.reportDatabase(databaseReady, backupConfigured(metav1.ConditionFalse, databasev1.ReasonBackupDisabled, "spec.backup.enabled is not true"))

			configured = w.condition("ns", "shop", platformv1.ConditionBackupConfigured)
			expect.Equal(t, "BackupConfigured of an older PostgreSQL", childv1alpha1.ReasonAwaitingChange, configured.Reason)
			expect.Equal(t, "Ready", metav1.ConditionTrue, w.ready().Status)
		}, inProduction)
	})
}

// TestBackupsOfPlatformStayWithoutDestination: a Backup whose destination nobody names any more goes on
// with its former one, until a user disables backups.
func TestBackupsOfPlatformStayWithoutDestination(t *testing.T) {
	byDefault, err := datastore.ParseDestination(map[string]string{"type": "s3", "bucket": "backups"})
	expect.NoError(t, err)
	restart := func(w *world, destination datastore.DefaultDestination) {
		w.Stop()
		w.destination = destination
		w.start()
	}
	t.Run("mysql", func(t *testing.T) {
		inWorld(t, func(w *world) {
			restart(w, byDefault)
			w.serveBackups()
			w.create("shop", inProduction, withMySQL)
			w.reportMySQL()
			w.Wait(time.Minute)
			backup := func() *backupv1.Backup {
				return controllertest.Get(w.World, w.client.BackupV1().Backups("ns").Get, "shop-db-backup")
			}
			spec := backup().Spec

			restart(w, datastore.DefaultDestination{})
			w.reportPods("shop-cache", corev1.ConditionTrue) // A pass before the kind is served.
			w.serveBackups()
			w.reportBackup(databaseReady)
			w.Wait(time.Minute)

			expect.Equal(t, "spec of the Backup", spec, backup().Spec)
			configured := w.condition("ns", "shop", platformv1.ConditionBackupConfigured)
			expect.Equal(t, "BackupConfigured", [2]string{"True", platformv1.ReasonDestinationRetained}, [2]string{string(configured.Status), configured.Reason})
			w.change(func(p *platformv1.EcommercePlatform) {
				p.Spec.Database.Backup = &platformv1.PlatformBackup{Enabled: ptr.To(false)}
			})
			_, err := w.client.BackupV1().Backups("ns").Get(t.Context(), "shop-db-backup", metav1.GetOptions{})
			expect.Equal(t, "the Backup is gone when backups are disabled", true, apierrors.IsNotFound(err))
		})
	})
	t.Run("postgresql", func(t *testing.T) {
		inRunningWorld(t, func(w *world) {
			restart(w, datastore.DefaultDestination{})
			w.reportDatabase(databaseReady, backupConfigured(metav1.ConditionTrue, databasev1.ReasonDestinationRetained, "stays"))

			configured := w.condition("ns", "shop", platformv1.ConditionBackupConfigured)
			expect.Equal(t, "BackupConfigured", [2]string{"True", platformv1.ReasonDestinationRetained}, [2]string{string(configured.Status), configured.Reason})

			w.reportDatabase(databaseReady, backupConfigured(metav1.ConditionFalse, databasev1.ReasonBackupNotReady, "the bucket is gone"))
			configured = w.condition("ns", "shop", platformv1.ConditionBackupConfigured)
			expect.Equal(t, "BackupConfigured of a failing Backup", databasev1.ReasonBackupNotReady, configured.Reason)
		}, inProduction)
	})
}

// TestFailingBackupsDegradePlatform: the components start nevertheless.
func TestFailingBackupsDegradePlatform(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create("shop", withBackups)

		w.reportDatabase(
			metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: databasev1.ReasonBackupNotReady, Message: "bucket dumps does not exist"},
			metav1.Condition{Type: "Reconciling", Status: metav1.ConditionTrue, Reason: databasev1.ReasonBackupNotReady, Message: "bucket dumps does not exist"},
			backupConfigured(metav1.ConditionFalse, databasev1.ReasonBackupNotReady, "bucket dumps does not exist"))
		for _, name := range []string{"shop-cache", "shop-backend", "shop-frontend"} {
			w.reportPods(name, corev1.ConditionTrue)
		}

		ready := w.ready()
		expect.Equal(t, "Ready", [2]string{databasev1.ReasonBackupNotReady, "bucket dumps does not exist"}, [2]string{ready.Reason, ready.Message})
		expect.Equal(t, "phase", childv1alpha1.PhaseDegraded, w.platform("ns", "shop").Status.Phase)
	})
}

// reportMySQL plays the controller of StatefulSets.
func (w *world) reportMySQL() {
	w.t.Helper()
	sets := w.kube.AppsV1().StatefulSets("ns")
	w.Act(func() error {
		found, err := sets.Get(w.t.Context(), "shop-db", metav1.GetOptions{})
		expect.NoError(w.t, err)
		found.Status.ObservedGeneration, found.Status.Replicas = found.Generation, 1
		found.Status.ReadyReplicas, found.Status.CurrentReplicas, found.Status.UpdatedReplicas = 1, 1, 1
		found.Status.AvailableReplicas = 1
		_, err = sets.UpdateStatus(w.t.Context(), found, metav1.UpdateOptions{})
		return err
	})
}

func (w *world) credentials() *corev1.Secret {
	w.t.Helper()
	return controllertest.Get(w.World, w.kube.CoreV1().Secrets("ns").Get, "shop-db-credentials")
}

func TestMySQL(t *testing.T) {
	inWorld(t, func(w *world) {
		w.serveBackups()
		w.create("shop", withMySQL, withBackups)

		expect.Equal(t, "requests of the creation", []string{
			"create secrets/shop-db-credentials", "patch services/shop-db-headless", "patch services/shop-db", "patch statefulsets/shop-db",
			"patch ecommerceplatforms/shop status", "event Normal Created",
		}, w.Take())
		secret := w.credentials()
		if len(secret.Data["password"]) < 26 || bytes.Equal(secret.Data["password"], secret.Data["root-password"]) {
			t.Error("the passwords are short or equal")
		}

		w.reportMySQL()

		expect.Equal(t, "requests when the database is ready", []string{
			"patch deployments/shop-cache", "patch services/shop-cache", "patch backups/shop-db-backup",
		}, w.Take())
		expect.Equal(t, "credentials", secret.Data, w.credentials().Data)
		for _, name := range []string{"shop-cache", "shop-backend", "shop-frontend"} {
			w.reportPods(name, corev1.ConditionTrue)
		}
		expect.Equal(t, "Ready beside a Backup that is not", metav1.ConditionFalse, w.ready().Status)
		w.reportBackup(metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue})
		expect.Equal(t, "Ready beside a Backup that is", metav1.ConditionTrue, w.ready().Status)
	})
}

// TestLostCredentialsOfMySQL: no passwords are generated that the volume does not accept, neither
// for a platform that runs nor for its successor.
func TestLostCredentialsOfMySQL(t *testing.T) {
	tests := map[string]func(w *world){
		"while the platform runs": func(*world) {},
		"of a deleted platform": func(w *world) {
			controllertest.Delete(w.World, w.client.PlatformV1().EcommercePlatforms("ns").Delete, "shop")
			controllertest.Delete(w.World, w.kube.AppsV1().StatefulSets("ns").Delete, "shop-db")
		},
	}
	for name, before := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.create("shop", withMySQL)
				controllertest.Create(w.World, w.kube.CoreV1().PersistentVolumeClaims("ns").Create, &corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Name: "data-shop-db-0", Labels: map[string]string{platformv1.LabelPlatform: "shop"}},
				})
				if owners := w.credentials().OwnerReferences; len(owners) > 0 {
					w.t.Errorf("the Secret has the owners %v", owners)
				}
				before(w)

				controllertest.Delete(w.World, w.kube.CoreV1().Secrets("ns").Delete, "shop-db-credentials")
				if name != "while the platform runs" {
					w.create("shop", withMySQL)
				}

				secrets, err := w.kube.CoreV1().Secrets("ns").List(w.t.Context(), metav1.ListOptions{})
				expect.NoError(w.t, err)
				expect.Equal(w.t, "Secrets", 0, len(secrets.Items))
				expect.Equal(w.t, "DatabaseReady", databasev1.ReasonCredentialsMissing, w.condition("ns", "shop", "DatabaseReady").Reason)
				expect.Equal(w.t, "Stalled", databasev1.ReasonCredentialsMissing, w.condition("ns", "shop", "Stalled").Reason)
				expect.Equal(w.t, "phase", childv1alpha1.PhaseFailed, w.platform("ns", "shop").Status.Phase)
			})
		})
	}
}

func TestRefusedStorageOfMySQLNamesTheField(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create("shop", withMySQL)
		w.reportMySQL()
		w.Refuse(func(request string) error {
			if request != "patch statefulsets/shop-db" {
				return nil
			}
			return apierrors.NewInvalid(schema.GroupKind{Kind: "StatefulSet"}, "shop-db",
				field.ErrorList{field.Forbidden(field.NewPath("spec"), "updates to statefulset spec are forbidden")})
		})

		w.change(inProduction)

		got := w.condition("ns", "shop", "DatabaseReady")
		expect.Equal(t, "reason", apimeta.ReasonRefused, got.Reason)
		if !strings.Contains(got.Message, "spec.environment production requests 100Gi, and the volume of a mysql keeps its size: set spec.database.storage to it") {
			t.Errorf("message is %q", got.Message)
		}
		expect.Equal(t, "phase", childv1alpha1.PhaseFailed, w.platform("ns", "shop").Status.Phase)
	})
}
