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

// Annotations of the volume claims, which hold what the claims were made for.
const (
	AnnotationVersion      = "database.example.com/version"
	AnnotationStorage      = "database.example.com/storage"
	AnnotationStorageClass = "database.example.com/storage-class"
)

// Finalizer deletes the volumes and the credentials if the deletion policy is Delete.
const Finalizer = "database.example.com/finalizer"

// Conditions of a PostgreSQL beside Ready, Reconciling and Stalled.
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
)

// Reasons of BackupConfigured.
const (
	// ReasonBackupDisabled means that spec.backup.enabled is not true.
	ReasonBackupDisabled = "BackupDisabled"
	// ReasonWaitingForDatabase means that the Backup is created when the database is ready for
	// the first time.
	ReasonWaitingForDatabase = "WaitingForDatabase"
	// ReasonBackupUnserved means that the kind Backup is not installed.
	ReasonBackupUnserved = "BackupUnserved"
	// ReasonBackupReady is the reason of BackupConfigured=True.
	ReasonBackupReady = "BackupReady"
	// ReasonBackupNotReady means that the Backup is not Ready. The message is that of the
	// Backup.
	ReasonBackupNotReady = "BackupNotReady"
)

// Reasons of Stalled and Ready.
const (
	// ReasonVersionChange means that spec.version is another major version than that of the
	// data. The servers keep the version of the data.
	ReasonVersionChange = "VersionChange"
	// ReasonStorageShrinks means that spec.storage is less than the size of a volume.
	ReasonStorageShrinks = "StorageShrinks"
	// ReasonStorageNotExpandable means that the API server refuses to enlarge a volume claim.
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
)

// Reasons of the event at the end of a deletion.
const (
	// ReasonDataRetained means that the volumes and the credentials are kept.
	ReasonDataRetained = "DataRetained"
	// ReasonDataDeleted means that the volumes and the credentials are deleted.
	ReasonDataDeleted = "DataDeleted"
)

// Keys of the Secret <name>-credentials.
const (
	// KeyUsername and KeyPassword are those of the owner of the database.
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
	// PhaseDegraded: the primary was ready once, and some servers are not ready.
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
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the PostgreSQL was created."
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 37 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS-1035 label of at most 37 characters (lower-case letters, digits and '-', beginning with a letter, ending with a letter or digit): the Backup is named <name>-backup, and has at most 44 characters",fieldPath=".metadata"

// PostgreSQL runs a PostgreSQL server and its streaming standbys.
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
	// +kubebuilder:validation:Pattern=`^[0-9]+Gi$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^0+Gi$')",message="storage must be at least 1Gi"
	// +optional
	Storage string `json:"storage,omitempty"`

	// replicas is the number of servers, 1 to 5: a primary and its standbys. Defaults to 1.
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

	// storageClassName is the StorageClass of the volumes. The default is that of the
	// cluster. While volumes exist, a change is not carried out: the conditions say so.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`

	// deletionPolicy says what becomes of the volumes and of the credentials when the
	// PostgreSQL is deleted: Retain keeps them for a PostgreSQL of the same name, Delete
	// deletes them. Defaults to Retain.
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete
	// +optional
	DeletionPolicy string `json:"deletionPolicy,omitempty"`
}

// PostgreSQLBackup makes backups of a PostgreSQL, through a Backup.
//
// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || !self.enabled || has(self.destination)",message="destination is required when backups are enabled"
type PostgreSQLBackup struct {
	// enabled makes backups. Defaults to false.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// schedule says when backups are made, in the cron format. Defaults to 0 2 * * *.
	// +kubebuilder:default="0 2 * * *"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Schedule string `json:"schedule,omitempty"`

	// retention is the age at which dumps are removed: 12h, 30d, 8w. Defaults to 30d.
	// +kubebuilder:default="30d"
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,4}[hdw]$`
	// +optional
	Retention string `json:"retention,omitempty"`

	// destination is where the dumps are kept. It is required when backups are enabled.
	// +optional
	Destination *backupv1.Destination `json:"destination,omitempty"`
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

	// children is what the operator knows of the children.
	// +optional
	Children childv1alpha1.ChildrenStatus `json:"children,omitzero"`
}
