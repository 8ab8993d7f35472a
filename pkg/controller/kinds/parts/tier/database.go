// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/mysql"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
	backupv1ac "github.com/example/demoapp-controller/pkg/generated/applyconfiguration/backup/v1"
	databasev1ac "github.com/example/demoapp-controller/pkg/generated/applyconfiguration/database/v1"
	workloadv1alpha1ac "github.com/example/demoapp-controller/pkg/generated/applyconfiguration/workload/v1alpha1"
)

const (
	// databaseSuffix is the suffix of the name of the database. backupSuffix is the suffix of the
	// name of its Backup.
	databaseSuffix = "-db"
	backupSuffix   = "-backup"
	// postgreSQLPort is the port of a PostgreSQL.
	postgreSQLPort = 5432
	backupKind     = "Backup"
)

// Server is a database.
type Server struct {
	// Type is backupv1.SourcePostgreSQL, which is a PostgreSQL, or backupv1.SourceMySQL, which
	// is a StatefulSet of one pod.
	Type             string
	Version, Storage string
	// StorageSource is the field that requests the size, for example "spec.database.storage".
	// Messages name it.
	StorageSource string
	// Replicas is the number of servers of a PostgreSQL. 0 lets users set it on the PostgreSQL,
	// whose default is 1.
	Replicas int32
	// Resources replace the default resources of each server. Optional.
	Resources *workloadv1alpha1.Resources
	// Backups is nil if the database has no backups.
	Backups *Backups
}

// Backups are the backups of a database.
type Backups struct {
	Schedule, Retention string
	// HasDestination says that the spec or the operator names where dumps are kept. Without it, nothing
	// is backed up.
	HasDestination bool
	// Destination is the destination in the spec. For a mysql, it may also be the operator's default.
	Destination *backupv1.Destination
	// ServiceAccountName is empty for the default.
	ServiceAccountName string
	// Volume is nil for the default.
	Volume *backupv1.Volume
	// Run is nil for the defaults.
	Run *backupv1.Run
}

func (s Server) isMySQL() bool { return s.Type == backupv1.SourceMySQL }

func (s Server) port() int32 {
	if s.isMySQL() {
		return mysql.Port
	}
	return postgreSQLPort
}

// advice names the field of the application that causes a problem of the PostgreSQL, or of the
// StatefulSet of a mysql. It is empty if the cause is unknown.
func (s Server) advice(causes []child.Cause) string {
	requests := fmt.Sprintf("%s requests %s", s.StorageSource, s.Storage)
	has := func(reason, field string) bool {
		return slices.ContainsFunc(causes, func(c child.Cause) bool { return c.Reason == reason && c.Field == field })
	}
	switch {
	case s.isMySQL() && slices.ContainsFunc(causes, changesVolumes):
		return requests + ", and the volume of a mysql keeps its size: set spec.database.storage to it"
	case s.isMySQL():
		return ""
	case has(databasev1.ReasonStorageShrinks, ""):
		return requests + ", and volumes never shrink: set spec.database.storage to their size or more"
	case has(databasev1.ReasonStorageNotExpandable, ""), has("", "spec.storage"):
		return requests + ": change spec.database.storage"
	case has(databasev1.ReasonVersionChange, ""), has("", "spec.version"):
		return fmt.Sprintf("spec.version is that of spec.database.version, %s", s.Version)
	default:
		return ""
	}
}

// changesVolumes reports whether a StatefulSet was refused because its claims differ from the claims
// of the existing StatefulSet. Before Kubernetes 1.37, the API server names only the spec for all
// fields that cannot change. The claims are the only one of them that a field of an application
// changes.
func changesVolumes(cause child.Cause) bool {
	return cause.Field == "spec.volumeClaimTemplates" || cause.Field == "spec" && cause.Type == metav1.CauseTypeForbidden
}

func (a Application) database() component.Component {
	n := a.named(Database, databaseSuffix)
	children := []child.Desired{databasev1ac.PostgreSQL(n.Name, "").WithLabels(n.PodLabels()).WithSpec(a.postgreSQL())}
	if a.Database.isMySQL() {
		children = a.mySQL().Children()
	}
	return component.Component{
		Name: Database, Field: "spec.database", Fields: workload.Fields("spec.database"), Children: append(children, a.policies(Database)...),
		Endpoint: a.endpoint(n.Name, a.Database.port()), Advice: a.Database.advice,
	}
}

// postgreSQL returns the spec of the PostgreSQL, which creates its own Backup.
func (a Application) postgreSQL() *databasev1ac.PostgreSQLSpecApplyConfiguration {
	spec := databasev1ac.PostgreSQLSpec().WithVersion(a.Database.Version).WithStorage(a.Database.Storage)
	if a.Database.Replicas > 0 {
		spec.WithReplicas(a.Database.Replicas)
	}
	if backups := a.Database.Backups; backups != nil {
		backup := databasev1ac.PostgreSQLBackup().WithEnabled(true).WithSchedule(backups.Schedule).WithRetention(backups.Retention).
			WithVolume(datastore.Volume(backups.Volume)).WithRun(datastore.Run(backups.Run))
		if backups.Destination != nil {
			backup.WithDestination(datastore.Destination(*backups.Destination))
		}
		if backups.ServiceAccountName != "" {
			backup.WithServiceAccountName(backups.ServiceAccountName)
		}
		spec.WithBackup(backup)
	}
	resources := a.resources(a.Database.Resources, databaseResources)
	return spec.WithResources(workload.WithLists(workloadv1alpha1ac.Resources(), resources.Requests, resources.Limits))
}

// EnsureCredentials creates the credentials of a mysql. It does nothing for a PostgreSQL,
// which has its own. See [mysql.Credentials.Ensure].
func (a Application) EnsureCredentials(ctx context.Context, credentials *mysql.Credentials, owner metav1.Object) (*datastore.Problem, error) {
	if !a.Database.isMySQL() {
		return nil, nil
	}
	return credentials.Ensure(ctx, owner, a.mySQL())
}

func (a Application) mySQL() mysql.Server {
	return mysql.Server{
		Named: a.named(Database, databaseSuffix), Version: a.Database.Version, Images: a.Images, Storage: a.Database.Storage,
		Resources: workload.Resources(a.resources(a.Database.Resources, databaseResources)),
	}
}

// databaseEnv returns the environment with which the backend connects to the database. Both types
// of databases have the same keys in their Secret.
func (a Application) databaseEnv() []*corev1ac.EnvVarApplyConfiguration {
	secret := a.mySQL().CredentialsSecret()
	return []*corev1ac.EnvVarApplyConfiguration{
		workload.Value("DATABASE_TYPE", a.Database.Type), workload.Value("DATABASE_HOST", a.Name+databaseSuffix),
		workload.Value("DATABASE_PORT", fmt.Sprint(a.Database.port())),
		workload.FromSecret("DATABASE_NAME", secret, databasev1.KeyDatabase),
		workload.FromSecret("DATABASE_USER", secret, databasev1.KeyUsername), workload.FromSecret("DATABASE_PASSWORD", secret, databasev1.KeyPassword),
	}
}

// Backups returns the component with the Backup of a mysql. It returns false without a Backup, and
// also if the database is a PostgreSQL, which creates its own Backup. While the destination is unknown, an
// existing Backup stays as it is. status has the children of the application.
func (a Application) Backups(status childv1alpha1.ChildrenStatus) (component.Component, bool) {
	if !a.Database.isMySQL() || a.Database.Backups == nil {
		return component.Component{}, false
	}
	backups, server, n := a.Database.Backups, a.mySQL(), a.named(Backup, databaseSuffix+backupSuffix)
	made := component.Component{Name: Backup, Field: "spec.database.backup", After: []string{Database}, IgnoreHealth: true}
	if backups.Destination == nil {
		made.Children = []child.Desired{child.Retain(backupv1ac.Backup(n.Name, ""))}
		return made, child.HasApplied(status, backupKind, n.Name)
	}
	source := backupv1ac.Source().WithType(backupv1.SourceMySQL).WithConnection(backupv1ac.Connection().
		WithHost(server.Name).WithPort(mysql.Port).WithDatabase(mysql.Database).WithCredentialsSecret(server.CredentialsSecret()))
	spec := backupv1ac.BackupSpec().WithSource(source).WithDestination(datastore.Destination(*backups.Destination)).
		WithSchedule(backups.Schedule).WithRetention(backups.Retention).
		WithVolume(datastore.Volume(backups.Volume)).WithRun(datastore.Run(backups.Run))
	if backups.ServiceAccountName != "" {
		spec.WithServiceAccountName(backups.ServiceAccountName)
	}
	made.Children = []child.Desired{backupv1ac.Backup(n.Name, "").WithLabels(n.PodLabels()).WithSpec(spec)}
	return made, true
}
