// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	backupv1ac "github.com/example/demoapp-controller/pkg/generated/applyconfiguration/backup/v1"
)

// BackupKind is the optional kind of children.
var BackupKind = backupv1.SchemeGroupVersion.WithKind("Backup")

// desiredBackup returns the Backup of the database with these names; none while backups are
// disabled, and before the database was ready for the first time. While the names or the destination are
// unknown, an existing Backup stays as it is: only a user ends backups.
func desiredBackup(
	p *databasev1.PostgreSQL, destination *backupv1.Destination, names map[string]string, initialized bool,
) []child.Desired {
	if !initialized || !backupEnabled(p) {
		return nil
	}
	if destination == nil {
		if !child.HasApplied(p.Status.Children, BackupKind.Kind, backupName(p)) {
			return nil
		}
		return []child.Desired{child.Retain(backupv1ac.Backup(backupName(p), ""))}
	}
	desired := backupv1ac.Backup(backupName(p), "").WithLabels(childLabels(p)).WithSpec(backupv1ac.BackupSpec().
		WithSource(backupv1ac.Source().WithType(backupv1.SourcePostgreSQL).WithConnection(backupv1ac.Connection().
			WithHost(naming.ServiceHost(p.Name, p.Namespace)).WithPort(port).WithDatabase(names[databasev1.KeyDatabase]).WithCredentialsSecret(credentialsName(p.Name)))).
		WithDestination(datastore.Destination(*destination)).WithSchedule(p.Spec.Backup.Schedule).WithRetention(p.Spec.Backup.Retention).
		WithVolume(datastore.Volume(p.Spec.Backup.Volume)).WithRun(datastore.Run(p.Spec.Backup.Run)))
	if account := p.Spec.Backup.ServiceAccountName; account != "" {
		desired.Spec.WithServiceAccountName(account)
	}
	if names[databasev1.KeyDatabase] == "" {
		return []child.Desired{child.Retain(desired)}
	}
	return []child.Desired{desired}
}

func backupEnabled(p *databasev1.PostgreSQL) bool {
	return p.Spec.Backup != nil && p.Spec.Backup.Enabled
}

// destinationOf returns the destination of the backups, or nil.
func destinationOf(p *databasev1.PostgreSQL, byDefault datastore.DefaultDestination) *backupv1.Destination {
	if p.Spec.Backup == nil {
		return nil
	}
	return byDefault.Or(p.Spec.Backup.Destination, p.Namespace)
}

func backupName(p *databasev1.PostgreSQL) string { return p.Name + "-backup" }

// Backups are the Backups of the process. They are empty until the kind is served. The zero
// value is ready to use.
type Backups struct {
	cached atomic.Pointer[controller.Scoped[*backupv1.Backup]]
}

// Add adds the informers of Backups, by namespace, and queues the owner of a Backup when a run of
// it succeeds, and when it is suspended or resumed. It is called once, when the kind is served.
func (b *Backups) Add(loop child.Loop, informers map[string]cache.SharedIndexInformer) error {
	cached := controller.Scoped[*backupv1.Backup]{}
	owner := func(backup *backupv1.Backup) []cache.ObjectName {
		if ref := metav1.GetControllerOfNoCopy(backup); ref != nil && ref.Kind == Kind.Kind && ref.APIVersion == Kind.GroupVersion().String() {
			return []cache.ObjectName{cache.NewObjectName(backup.Namespace, ref.Name)}
		}
		return nil
	}
	why := func(before, after *backupv1.Backup) controller.Reason {
		if before != nil && after != nil &&
			(!after.Status.LastSuccessfulTime.Equal(before.Status.LastSuccessfulTime) || after.Spec.Suspend != before.Spec.Suspend) {
			return controller.HealthChange
		}
		return 0
	}
	for namespace, informer := range informers {
		cached[namespace] = informer.GetIndexer()
		synced, err := controller.AddHandler("backups of PostgreSQLs", informer, controller.MapHandler(loop.Queue(), owner, why))
		if err != nil {
			return err
		}
		loop.Await(synced)
	}
	b.cached.Store(&cached)
	return nil
}

// of returns the Backup of a PostgreSQL, or nil.
func (b *Backups) of(p *databasev1.PostgreSQL) *backupv1.Backup {
	if cached := b.cached.Load(); cached != nil {
		if backup, ok := cached.Get(cache.NewObjectName(p.Namespace, backupName(p))); ok && metav1.IsControlledBy(backup, p) {
			return backup
		}
	}
	return nil
}
