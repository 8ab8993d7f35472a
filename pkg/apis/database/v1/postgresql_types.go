// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
)

// LabelPostgreSQL is the label of the children of a PostgreSQL and of its pods that holds the
// name of the PostgreSQL.
const LabelPostgreSQL = "database.example.com/postgresql"

// LabelCertificate is the label of the Secret with the CA and the certificate of a PostgreSQL. It
// holds the name of the PostgreSQL.
const LabelCertificate = "database.example.com/certificate"

// AnnotationScripts is the annotation of pods with a digest of the scripts in the ConfigMap that they mount.
const AnnotationScripts = "database.example.com/scripts"

// AnnotationRestart is the annotation of pods with a digest of the parameters that need a restart.
const AnnotationRestart = "database.example.com/restart-parameters"

// Annotations of the volume claims, which hold what the claims were made for.
const (
	AnnotationVersion      = "database.example.com/version"
	AnnotationStorage      = "database.example.com/storage"
	AnnotationStorageClass = "database.example.com/storage-class"
)

// AnnotationCreatedFor is the annotation of a Secret with credentials that the operator created. It
// holds the UID of the owner for which the operator created the Secret.
const AnnotationCreatedFor = "database.example.com/created-for"

// Finalizer deletes the volumes and the credentials if the deletion policy is Delete.
const Finalizer = "database.example.com/finalizer"

// Conditions of a PostgreSQL, in addition to Ready, Reconciling and Stalled.
const (
	// ConditionDatabaseReady is True while the primary accepts writes.
	ConditionDatabaseReady = "DatabaseReady"
	// ConditionBackupConfigured is True while backups are made as scheduled.
	ConditionBackupConfigured = "BackupConfigured"
)

// Reasons of DatabaseReady.
const (
	// ReasonStarting means that the primary was never ready.
	ReasonStarting = "Starting"
	// ReasonAvailable is the reason of DatabaseReady=True.
	ReasonAvailable = "Available"
	// ReasonUnavailable means that the primary was ready before, and is not now.
	ReasonUnavailable = "Unavailable"
	// ReasonNodeLost means that the pod of the primary was deleted, and that the kubelet of its node
	// does not confirm the end of the pod. No other node starts the pod until a user acts. The message
	// has the commands.
	ReasonNodeLost = "NodeLost"
)

// Reasons of BackupConfigured. ReasonBackupUnserved and ReasonBackupNotReady are reasons of
// Ready=False, too. ReasonBackupDisabled and ReasonNoDestination are so only if spec.backup.required
// is true.
const (
	// ReasonBackupDisabled means that spec.backup.enabled is not true.
	ReasonBackupDisabled = "BackupDisabled"
	// ReasonNoDestination means that backups are enabled and nothing is backed up, because neither
	// spec.backup.destination nor --default-backup-destination names a bucket.
	ReasonNoDestination = "NoDestination"
	// ReasonWaitingForDatabase means that the Backup is created when the database is ready for
	// the first time.
	ReasonWaitingForDatabase = "WaitingForDatabase"
	// ReasonBackupUnserved means that the kind Backup is not installed.
	ReasonBackupUnserved = "BackupUnserved"
	// ReasonBackupReady is the reason of BackupConfigured=True.
	ReasonBackupReady = "BackupReady"
	// ReasonDestinationRetained is a reason of BackupConfigured=True. It means that backups are enabled,
	// nothing names a destination any more, and the Backup stays as it was, with its former destination.
	ReasonDestinationRetained = "DestinationRetained"
	// ReasonBackupNotReady means that the Backup is not Ready. The message is copied from the
	// Backup.
	ReasonBackupNotReady = "BackupNotReady"
)

// Reasons of Stalled and Ready.
const (
	// ReasonVersionChange means that the major version in spec.version differs from the major
	// version of the data. The servers keep the version of the data.
	ReasonVersionChange = "VersionChange"
	// ReasonStorageShrinks means that spec.storage is less than the size of a volume.
	ReasonStorageShrinks = "StorageShrinks"
	// ReasonStorageNotExpandable means that the API server refuses to enlarge a volume claim, or that
	// the storage cannot enlarge its volume.
	ReasonStorageNotExpandable = "StorageNotExpandable"
	// ReasonStorageClassChange means that the volumes have another StorageClass than
	// spec.storageClassName.
	ReasonStorageClassChange = "StorageClassChange"
	// ReasonCredentialsMissing means that the Secret with the credentials is gone while
	// volumes exist. A new password would not open the data in the volumes.
	ReasonCredentialsMissing = "CredentialsMissing"
	// ReasonCredentialsInvalid means that the Secret with the credentials lacks a key, or that
	// a value cannot be used.
	ReasonCredentialsInvalid = "CredentialsInvalid"
	// ReasonCertificateMissing means that the Secret in spec.tls.secretName does not exist, or lacks
	// a key. Existing servers keep running as they are.
	ReasonCertificateMissing = "CertificateMissing"
)

// Reasons of the event at the end of a deletion.
const (
	// ReasonDataRetained means that the volumes and the credentials are kept.
	ReasonDataRetained = "DataRetained"
	// ReasonDataDeleted means that the volumes and the credentials are deleted.
	ReasonDataDeleted = "DataDeleted"
	// ReasonVolumesDeleted means that the volumes are deleted, and that the credentials are not,
	// because a user created them or they have other labels.
	ReasonVolumesDeleted = "VolumesDeleted"
)

// Keys of the Secret <name>-credentials.
const (
	// KeyUsername and KeyPassword have the name and the password of the owner of the database.
	KeyUsername = "username"
	KeyPassword = "password"
	// KeyDatabase is the name of the database.
	KeyDatabase = "database"
	// KeyReplicationPassword is the password with which standbys follow the primary.
	KeyReplicationPassword = "replication-password"
)

// Values of PostgreSQLSpec.DeletionPolicy.
const (
	DeletionPolicyRetain = "Retain"
	DeletionPolicyDelete = "Delete"
)

// Values of PostgreSQLStatus.Phase.
const (
	// PhasePending: no server exists yet.
	PhasePending = "Pending"
	// PhaseDeploying: the primary was not ready yet, or all servers are ready and a change is
	// rolled out.
	PhaseDeploying = "Deploying"
	// PhaseRunning: all servers are ready.
	PhaseRunning = "Running"
	// PhaseDegraded: the primary was ready once, and it or another server is not ready, or backups
	// that are enabled are not made.
	PhaseDegraded = "Degraded"
	// PhaseFailed: a user must act.
	PhaseFailed = "Failed"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=postgresqls,singular=postgresql,scope=Namespaced,shortName=pg,categories=all;database;demoapp-controller
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`,description="Major version."
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Number of servers that are ready."
// +kubebuilder:printcolumn:name="Storage",type=string,JSONPath=`.spec.storage`,description="Size of each volume."
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Summary of the conditions."
// +kubebuilder:printcolumn:name="Backups",type=string,JSONPath=`.status.conditions[?(@.type=='BackupConfigured')].reason`,description="Whether backups are made: BackupReady, BackupDisabled, or why they are not made."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the PostgreSQL was created."
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 37 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS-1035 label of at most 37 characters (lower-case letters, digits and '-', beginning with a letter, ending with a letter or digit): the Backup is named <name>-backup, and has at most 44 characters",fieldPath=".metadata"

// PostgreSQL runs a PostgreSQL server and its streaming standbys. Failover is manual, replication
// is asynchronous, and there is no recovery to a point in time: a backup restores the state at its
// start. Databases that need more are a case for CloudNativePG.
type PostgreSQL struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name is a DNS-1035 label of at most 37
	// characters: the Backup is named <name>-backup, and has at most 44 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec PostgreSQLSpec `json:"spec"`

	// status is the observed state. The operator alone writes it.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status PostgreSQLStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// PostgreSQLList is a list of PostgreSQLs.
type PostgreSQLList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the PostgreSQLs.
	Items []PostgreSQL `json:"items"`
}

// PostgreSQLSpec is the desired state of a PostgreSQL.
//
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('shared_buffers' in self.parameters) || !self.parameters['shared_buffers'].matches('^[1-9][0-9]{0,5}(MB|GB)$') || !has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits) || !isQuantity(string(self.resources.limits['memory'])) || quantity(self.parameters['shared_buffers'].replace('B', 'i')).isLessThan(quantity(string(self.resources.limits['memory'])))",message="shared_buffers must be less than the memory limit in spec.resources.limits: lower it, or raise the limit",fieldPath=".parameters"
type PostgreSQLSpec struct {
	// version is the major version, 12 to 18. While data of another major version exists, a
	// change is not carried out, because the server does not start on it: the conditions say
	// so. Dump the data and restore it into a new PostgreSQL instead.
	// +kubebuilder:validation:Enum="12";"13";"14";"15";"16";"17";"18"
	// +required
	Version string `json:"version"`

	// storage is the size of each volume in Gi. It may grow if the StorageClass allows it. A
	// smaller size is not carried out: the conditions say so. Defaults to 10Gi.
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^0*[1-9][0-9]*Gi$')",message="must be a size in Gi of at least 1Gi, such as 10Gi"
	// +optional
	Storage string `json:"storage,omitempty"`

	// replicas is the number of servers, 1 to 5: a primary and its standbys. Standbys follow
	// asynchronously, and none is promoted automatically. The volumes of removed servers stay:
	// status.unusedClaims lists them. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// backup makes backups of the database.
	// +optional
	Backup *PostgreSQLBackup `json:"backup,omitempty"`

	// resources are the compute resources of each server.
	// +optional
	Resources *workloadv1alpha1.Resources `json:"resources,omitempty"`

	// parameters are settings of the servers, by name. Only the names of the table in
	// docs/postgresql.md are allowed. Defaults for memory and connections follow from the memory
	// limit in resources, and shared_buffers must be less than the limit. A change of a setting that
	// needs a restart rolls the pods, the primary last.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['auto_explain.log_min_duration', 'autovacuum', 'autovacuum_analyze_scale_factor', 'autovacuum_analyze_threshold', 'autovacuum_max_workers', 'autovacuum_naptime', 'autovacuum_vacuum_cost_limit', 'autovacuum_vacuum_scale_factor', 'autovacuum_vacuum_threshold', 'autovacuum_work_mem', 'checkpoint_completion_target', 'checkpoint_timeout', 'deadlock_timeout', 'default_statistics_target', 'default_transaction_isolation', 'effective_cache_size', 'effective_io_concurrency', 'hot_standby_feedback', 'idle_in_transaction_session_timeout', 'jit', 'lock_timeout', 'log_autovacuum_min_duration', 'log_checkpoints', 'log_connections', 'log_disconnections', 'log_lock_waits', 'log_min_duration_statement', 'log_statement', 'maintenance_work_mem', 'max_connections', 'max_locks_per_transaction', 'max_parallel_maintenance_workers', 'max_parallel_workers', 'max_parallel_workers_per_gather', 'max_prepared_transactions', 'max_standby_streaming_delay', 'max_worker_processes', 'pg_stat_statements.max', 'pg_stat_statements.track', 'random_page_cost', 'seq_page_cost', 'shared_buffers', 'shared_preload_libraries', 'statement_timeout', 'synchronous_commit', 'temp_buffers', 'track_io_timing', 'work_mem'])",messageExpression="self.filter(k, !(k in ['auto_explain.log_min_duration', 'autovacuum', 'autovacuum_analyze_scale_factor', 'autovacuum_analyze_threshold', 'autovacuum_max_workers', 'autovacuum_naptime', 'autovacuum_vacuum_cost_limit', 'autovacuum_vacuum_scale_factor', 'autovacuum_vacuum_threshold', 'autovacuum_work_mem', 'checkpoint_completion_target', 'checkpoint_timeout', 'deadlock_timeout', 'default_statistics_target', 'default_transaction_isolation', 'effective_cache_size', 'effective_io_concurrency', 'hot_standby_feedback', 'idle_in_transaction_session_timeout', 'jit', 'lock_timeout', 'log_autovacuum_min_duration', 'log_checkpoints', 'log_connections', 'log_disconnections', 'log_lock_waits', 'log_min_duration_statement', 'log_statement', 'maintenance_work_mem', 'max_connections', 'max_locks_per_transaction', 'max_parallel_maintenance_workers', 'max_parallel_workers', 'max_parallel_workers_per_gather', 'max_prepared_transactions', 'max_standby_streaming_delay', 'max_worker_processes', 'pg_stat_statements.max', 'pg_stat_statements.track', 'random_page_cost', 'seq_page_cost', 'shared_buffers', 'shared_preload_libraries', 'statement_timeout', 'synchronous_commit', 'temp_buffers', 'track_io_timing', 'work_mem']))[0] + ' cannot be set: remove it, or see the names in docs/postgresql.md#parameters'"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['shared_buffers', 'effective_cache_size', 'work_mem', 'maintenance_work_mem', 'autovacuum_work_mem', 'temp_buffers']) || self[k].matches('^([1-9][0-9]{0,5}MB|[1-9][0-9]{0,2}GB)$'))",message="shared_buffers, effective_cache_size, work_mem, maintenance_work_mem, autovacuum_work_mem, temp_buffers: a size must be a number of MB or GB, such as 512MB"
	// +kubebuilder:validation:XValidation:rule="!('max_connections' in self) || self['max_connections'].matches('^([2-9][0-9]|[1-9][0-9]{2,3})$')",message="max_connections must be a number from 20 to 9999"
	// +kubebuilder:validation:XValidation:rule="!('max_locks_per_transaction' in self) || self['max_locks_per_transaction'].matches('^[1-9][0-9]{1,3}$')",message="max_locks_per_transaction must be a number from 10 to 9999"
	// +kubebuilder:validation:XValidation:rule="!('pg_stat_statements.max' in self) || self['pg_stat_statements.max'].matches('^[1-9][0-9]{2,5}$')",message="pg_stat_statements.max must be a number from 100 to 999999"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['max_worker_processes', 'max_parallel_workers', 'max_parallel_workers_per_gather', 'max_parallel_maintenance_workers', 'max_prepared_transactions', 'effective_io_concurrency']) || self[k].matches('^([0-9]|[1-9][0-9]{1,2})$'))",message="max_worker_processes, max_parallel_workers, max_parallel_workers_per_gather, max_parallel_maintenance_workers, max_prepared_transactions, effective_io_concurrency: a number of processes, transactions or requests must be from 0 to 999"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['autovacuum_max_workers', 'default_statistics_target', 'autovacuum_vacuum_cost_limit']) || self[k].matches('^[1-9][0-9]{0,2}$'))",message="autovacuum_max_workers, default_statistics_target, autovacuum_vacuum_cost_limit: must be a number from 1 to 999"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['autovacuum_vacuum_threshold', 'autovacuum_analyze_threshold']) || self[k].matches('^(0|[1-9][0-9]{0,8})$'))",message="autovacuum_vacuum_threshold, autovacuum_analyze_threshold: a threshold must be a number of rows"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['random_page_cost', 'seq_page_cost']) || self[k].matches('^[0-9]{1,4}([.][0-9]{1,4})?$'))",message="random_page_cost, seq_page_cost: a cost must be a number such as 1.1"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['checkpoint_completion_target', 'autovacuum_vacuum_scale_factor', 'autovacuum_analyze_scale_factor']) || self[k].matches('^(0|1|[01][.]0{1,4}|0[.][0-9]{1,4})$'))",message="checkpoint_completion_target, autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor: a fraction must be a number from 0 to 1, such as 0.9"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'log_min_duration_statement', 'log_autovacuum_min_duration', 'auto_explain.log_min_duration', 'max_standby_streaming_delay']) || self[k].matches('^(0|[1-9][0-9]{0,6}ms|[1-9][0-9]{0,5}s|[1-9][0-9]{0,3}min|[1-9][0-9]?h)$'))",message="statement_timeout, lock_timeout, idle_in_transaction_session_timeout, log_min_duration_statement, log_autovacuum_min_duration, auto_explain.log_min_duration, max_standby_streaming_delay: a duration must be 0, or a number of ms, s, min or h, such as 30s"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['checkpoint_timeout', 'deadlock_timeout', 'autovacuum_naptime']) || self[k].matches('^([1-9][0-9]{0,2}min|[1-9]h|[3-9][0-9]s)$'))",message="checkpoint_timeout, deadlock_timeout, autovacuum_naptime: must be a number of min or h, or 30s to 99s"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['autovacuum', 'log_connections', 'log_disconnections', 'log_lock_waits', 'log_checkpoints', 'hot_standby_feedback', 'track_io_timing', 'jit', 'synchronous_commit']) || self[k].matches('^(on|off)$'))",message="autovacuum, log_connections, log_disconnections, log_lock_waits, log_checkpoints, hot_standby_feedback, track_io_timing, jit, synchronous_commit: a switch must be on or off"
	// +kubebuilder:validation:XValidation:rule="!('log_statement' in self) || self['log_statement'].matches('^(none|ddl|mod|all)$')",message="log_statement must be none, ddl, mod or all"
	// +kubebuilder:validation:XValidation:rule="!('pg_stat_statements.track' in self) || self['pg_stat_statements.track'].matches('^(none|top|all)$')",message="pg_stat_statements.track must be none, top or all"
	// +kubebuilder:validation:XValidation:rule="!('default_transaction_isolation' in self) || self['default_transaction_isolation'].matches('^(read committed|repeatable read|serializable)$')",message="default_transaction_isolation must be read committed, repeatable read or serializable"
	// +kubebuilder:validation:XValidation:rule="!('shared_preload_libraries' in self) || self['shared_preload_libraries'].matches('^(pg_stat_statements|auto_explain|pg_prewarm)(,(pg_stat_statements|auto_explain|pg_prewarm)){0,2}$')",message="shared_preload_libraries must be a list of pg_stat_statements, auto_explain and pg_prewarm, separated by commas"
	// +optional
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`

	// tls encrypts connections of clients and standbys. A change rolls the pods. The default is no
	// TLS.
	// +optional
	TLS *PostgreSQLTLS `json:"tls,omitempty"`

	// storageClassName is the StorageClass of the volumes. The default is the default StorageClass
	// of the cluster. While volumes exist, a change is not carried out: the conditions say so.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a StorageClass: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`

	// deletionPolicy says what becomes of the volumes and of the credentials when the
	// PostgreSQL is deleted: Retain keeps them for a PostgreSQL of the same name, Delete
	// deletes those that this PostgreSQL made or ran on. A deletion with --cascade=orphan and
	// the deletion of the CRD always keep them. Defaults to Retain.
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete
	// +optional
	DeletionPolicy string `json:"deletionPolicy,omitempty"`
}

// ParameterValue is the value of a setting, without quotes.
//
// +kubebuilder:validation:MaxLength=128
type ParameterValue string

// PostgreSQLTLS encrypts connections to the servers.
type PostgreSQLTLS struct {
	// secretName is the name of a Secret with the keys tls.crt and tls.key, for example of a
	// cert-manager Certificate. The servers use a renewed certificate without a restart. By default,
	// the operator keeps a CA and a certificate in the Secret <name>-tls, and the certificate of the
	// CA for clients in the ConfigMap <name>-ca.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +optional
	SecretName string `json:"secretName,omitempty"`

	// required refuses connections without TLS. Defaults to false.
	// +optional
	Required bool `json:"required,omitempty"`
}

// PostgreSQLBackup makes backups of a PostgreSQL, through a Backup.
type PostgreSQLBackup struct {
	// enabled makes backups. Defaults to false.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// required makes Ready depend on the backups: Ready is False while the condition
	// BackupConfigured is. Without it, a database without a destination is Ready. Defaults to false.
	// +optional
	Required bool `json:"required,omitempty"`

	// schedule says when backups are made, in the cron format. Defaults to 0 2 * * *.
	// +kubebuilder:default="0 2 * * *"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Schedule string `json:"schedule,omitempty"`

	// retention is the age at which dumps are removed: 12h, 30d, 8w. Defaults to 30d.
	// +kubebuilder:default="30d"
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,4}[hdw]$')",message="must be a number of hours, days or weeks, such as 12h, 30d or 8w"
	// +optional
	Retention string `json:"retention,omitempty"`

	// destination is where the dumps are kept. Defaults to the operator's
	// --default-backup-destination. While there is neither, nothing is backed up, and the condition
	// BackupConfigured says so.
	// +optional
	Destination *backupv1.Destination `json:"destination,omitempty"`

	// serviceAccountName is the account of the backups' pods, as in a Backup.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a ServiceAccount: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// volume holds a dump until it is stored. Defaults to 50Gi on the disk of the node.
	// +optional
	Volume *backupv1.Volume `json:"volume,omitempty"`

	// run is about the Jobs of the backups.
	// +optional
	Run *backupv1.Run `json:"run,omitempty"`
}

// UsedClaim is a PersistentVolumeClaim on which a PostgreSQL has run.
type UsedClaim struct {
	// name of the claim.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// uid of the claim.
	// +kubebuilder:validation:MaxLength=64
	// +required
	UID string `json:"uid"`
}

// PostgreSQLStatus is the observed state of a PostgreSQL.
type PostgreSQLStatus struct {
	// conditions are Ready, Reconciling and Stalled, as in the kstatus contract, and DatabaseReady
	// and BackupConfigured.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that was last reconciled. It is -1
	// before the first time.
	// +kubebuilder:default=-1
	// +kubebuilder:validation:Minimum=-1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is a summary of the conditions. The operator does not read it.
	// +kubebuilder:validation:Enum=Pending;Deploying;Running;Degraded;Failed
	// +optional
	Phase string `json:"phase,omitempty"`

	// readyReplicas is the number of servers that are ready.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// endpoint is where the primary is reached within the cluster, as host:port.
	// +kubebuilder:validation:MaxLength=320
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// lastBackupTime is the last time that a backup succeeded.
	// +optional
	LastBackupTime *metav1.Time `json:"lastBackupTime,omitempty"`

	// unusedClaims are the PersistentVolumeClaims of servers that spec.replicas no longer includes.
	// The operator does not delete them, because a standby's volume may have the last copy of the
	// data. More replicas use them again. Else delete them with kubectl delete pvc.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	UnusedClaims []string `json:"unusedClaims,omitempty"`

	// claims are the PersistentVolumeClaims on which this PostgreSQL has run. The deletion policy Delete
	// deletes these and no others.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Claims []UsedClaim `json:"claims,omitempty"`

	// children is what the operator knows of the children.
	// +optional
	Children childv1alpha1.ChildrenStatus `json:"children,omitzero"`
}
