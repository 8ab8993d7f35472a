// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
)

// AnnotationRunNow starts a run when it gets a new value, also while runs are suspended.
const AnnotationRunNow = "backup.example.com/run-now"

// LabelBackup is the label of the children of a Backup, of its Jobs and of their pods that
// holds the name of the Backup.
const LabelBackup = "backup.example.com/backup"

// Values of Source.Type.
const (
	SourcePostgreSQL = "postgresql"
	SourceMySQL      = "mysql"
	SourceMongoDB    = "mongodb"
)

// Values of Destination.Type.
const (
	DestinationS3    = "s3"
	DestinationGCS   = "gcs"
	DestinationAzure = "azure"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=backups,singular=backup,scope=Namespaced,shortName=bak,categories=all;database;demoapp-controller
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`,description="When runs start."
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`,description="Whether no runs are scheduled."
// +kubebuilder:printcolumn:name="Last Success",type=date,JSONPath=`.status.lastSuccessfulTime`,description="Time since the last successful run."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`,description="Whether backups are made as scheduled."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the Backup was created."
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 44 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS-1035 label of at most 44 characters (lower-case letters, digits and '-', beginning with a letter, ending with a letter or digit): the CronJob is named <name>-cronjob, and a CronJob has at most 52 characters",fieldPath=".metadata"

// Backup dumps a database on a schedule and keeps the dumps in a bucket.
type Backup struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name is a DNS-1035 label of at most 44
	// characters: the CronJob is named <name>-cronjob, and a CronJob has at most 52 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec BackupSpec `json:"spec"`

	// status is the observed state. The operator alone writes it.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status BackupStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// BackupList is a list of Backups.
type BackupList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Backups.
	Items []Backup `json:"items"`
}

// BackupSpec is the desired state of a Backup.
type BackupSpec struct {
	// source is the database.
	// +required
	Source Source `json:"source"`

	// destination is where the dumps are kept.
	// +required
	Destination Destination `json:"destination"`

	// schedule says when runs start, in the cron format of CronJobs: five fields, or a macro
	// such as @daily. The macro @every is not supported, because its times are not fixed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	Schedule string `json:"schedule"`

	// timeZone is the time zone of the schedule, such as Europe/Berlin. Defaults to UTC.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`

	// retention is the age at which dumps are removed, in hours, days or weeks: 12h, 30d, 8w.
	// The newest dump is never removed. Defaults to 30d.
	// +kubebuilder:default="30d"
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,4}[hdw]$')",message="must be a number of hours, days or weeks, such as 12h, 30d or 8w"
	// +optional
	Retention string `json:"retention,omitempty"`

	// volume is the volume of the pods that holds a dump until it is stored, or loaded.
	// +optional
	Volume *Volume `json:"volume,omitempty"`

	// run is about the Jobs of the runs, and of restores.
	// +optional
	Run *Run `json:"run,omitempty"`

	// serviceAccountName is the ServiceAccount of the pods, to which the cloud gives credentials of
	// the bucket. The pods get no token of the API server. Defaults to default.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a ServiceAccount: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// suspend starts no further scheduled runs.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// Source is the database of a Backup.
type Source struct {
	// type is the database system.
	// +kubebuilder:validation:Enum=postgresql;mysql;mongodb
	// +required
	Type string `json:"type"`

	// connection says how the database is reached.
	// +required
	Connection Connection `json:"connection"`

	// image has the programs of the database, such as mariadb:11.4. The operator's image for the type
	// is the default. The programs of PostgreSQL must not be older than the server.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule=`self.matches('^((([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)([.][a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*|[\\[][a-fA-F0-9]*:[a-fA-F0-9:]*[\\]])(:[0-9]+)?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?(@sha256:[a-f0-9]{64})?$')`,message="must be an image reference such as mariadb:11.4, registry.example.com/team/tools:v1 or mysql@sha256:<digest>"
	// +optional
	Image string `json:"image,omitempty"`
}

// Volume is the volume of a Backup's pods.
type Volume struct {
	// size bounds the dump, which is compressed. Defaults to 50Gi.
	// +kubebuilder:default="50Gi"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]*(Mi|Gi|Ti)$')",message="must be a size in Mi, Gi or Ti of at least 1Mi, such as 50Gi"
	// +optional
	Size string `json:"size,omitempty"`

	// storageClassName is the class of a volume that lives as long as a pod. By default the volume is
	// an emptyDir, on the disk of the node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a StorageClass: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
}

// Run is about the Jobs of a Backup.
type Run struct {
	// timeout is how long a run or a restore may take, retries included. Defaults to 6h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="must be a duration from 1m to 168h, such as 90m or 12h"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// podLabels are further labels of the pods, for example for a NetworkPolicy or a service mesh.
	// The operator's own labels win over them.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.size() <= 317)",message="must have keys of at most 317 characters"
	// +optional
	PodLabels map[string]LabelValue `json:"podLabels,omitempty"`

	// podAnnotations are annotations of the pods, such as sidecar.istio.io/inject: "false".
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.size() <= 317)",message="must have keys of at most 317 characters"
	// +optional
	PodAnnotations map[string]AnnotationValue `json:"podAnnotations,omitempty"`
}

// LabelValue is the value of a label: at most 63 characters. The bound also limits the cost of the
// rule, which an API server estimates for the whole CRD.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?)?$')",message="must be the value of a label: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
type LabelValue string

// AnnotationValue is the value of an annotation: at most 4096 characters.
//
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// Connection says how a database is reached.
type Connection struct {
	// host is the DNS name or the address of the server.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([-a-zA-Z0-9.:]*[a-zA-Z0-9])?$')",message="must be a DNS name or an IP address, such as db.shop.svc.cluster.local"
	// +required
	Host string `json:"host"`

	// port is the TCP port of the server. The default is 5432 for postgresql, 3306 for mysql
	// and 27017 for mongodb.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// database is the name of the database.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9_][-a-zA-Z0-9_]*$')",message="must be the name of a database: letters, digits, '-' and '_', not beginning with '-'"
	// +required
	Database string `json:"database"`

	// credentialsSecret is the name of a Secret with the keys username and password.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +required
	CredentialsSecret string `json:"credentialsSecret"`
}

// Destination is the bucket of a Backup.
// +kubebuilder:validation:XValidation:rule="self.type == 's3' || !(has(self.region) || has(self.serverSideEncryption) || has(self.kmsKeyID))",message="region, serverSideEncryption and kmsKeyID need type s3: remove them, or set type to s3"
// +kubebuilder:validation:XValidation:rule="!has(self.kmsKeyID) || has(self.serverSideEncryption) && self.serverSideEncryption == 'aws:kms'",message="needs serverSideEncryption aws:kms: set it, or remove kmsKeyID",fieldPath=".kmsKeyID"
type Destination struct {
	// type is the storage system.
	// +kubebuilder:validation:Enum=s3;gcs;azure
	// +required
	Type string `json:"type"`

	// bucket is the name of the bucket; in Azure, of the container.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=222
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][-a-zA-Z0-9._]*[a-zA-Z0-9]$')",message="must be the name of a bucket, without a path: letters, digits, '-', '.' and '_', beginning and ending with a letter or digit"
	// +required
	Bucket string `json:"bucket"`

	// prefix is put before the names of the dumps, as a path.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([-a-zA-Z0-9._/]*[-a-zA-Z0-9._])?$')",message="must be a path such as team/orders: letters, digits, '-', '.', '_' and '/', beginning with a letter or digit, and not ending with '/'"
	// +kubebuilder:validation:XValidation:rule="!self.contains('..') && !self.contains('//')",message="must not contain '..' or '//'"
	// +optional
	Prefix string `json:"prefix,omitempty"`

	// endpoint is the URL of the storage server. The default is the endpoint of the provider.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]{1,5})?(/[-a-zA-Z0-9._~/]*)?$')",message="must be a URL without a login, such as https://s3.example.com or http://minio.storage:9000"
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// region is the region of the bucket, for s3.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][-a-zA-Z0-9]*$')",message="must be the name of a region, such as eu-central-1: letters, digits and '-'"
	// +optional
	Region string `json:"region,omitempty"`

	// caBundle has the certificates, in PEM, that may sign the certificate of the storage server. By
	// default these are the public authorities.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:XValidation:rule="self.startsWith('-----BEGIN CERTIFICATE-----')",message="must be certificates in PEM: the text between and with -----BEGIN CERTIFICATE----- and -----END CERTIFICATE-----"
	// +optional
	CABundle string `json:"caBundle,omitempty"`

	// serverSideEncryption is how the storage server encrypts the dumps, for s3. The setting of the
	// bucket is the default.
	// +kubebuilder:validation:Enum=AES256;aws:kms
	// +optional
	ServerSideEncryption string `json:"serverSideEncryption,omitempty"`

	// kmsKeyID is the key of aws:kms, as an ID or an ARN. The key of the account is the default.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][-a-zA-Z0-9:/_]*$')",message="must be the ID or the ARN of a key: letters, digits, '-', ':', '/' and '_'"
	// +optional
	KMSKeyID string `json:"kmsKeyID,omitempty"`

	// takeOverFrom is the UID of a Backup that is no longer in use. This Backup becomes the owner of
	// its dumps, and deletes those past the retention. The reason DestinationInUse names the UID.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-a-zA-Z0-9]+$')",message="must be the UID of a Backup, which the reason DestinationInUse names: letters, digits and '-'"
	// +optional
	TakeOverFrom string `json:"takeOverFrom,omitempty"`

	// credentialsSecret is the name of a Secret with the credentials of the bucket. For s3,
	// its keys are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. For gcs, its key is
	// GOOGLE_CREDENTIALS, the JSON file of a service account. For azure, its keys are
	// AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY. Without a Secret, runs have the credentials that
	// the cloud gives to the ServiceAccount of their pods.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +optional
	CredentialsSecret string `json:"credentialsSecret,omitempty"`
}

// BackupStatus is the observed state of a Backup.
type BackupStatus struct {
	// conditions are Ready, Reconciling and Stalled, as in the kstatus contract, Scheduled,
	// CredentialsConfigured and LastRunSucceeded.
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

	// lastScheduleTime is the last time that a run was started by the schedule.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// lastSuccessfulTime is the last time that a run succeeded.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`

	// lastFailure is the last run that failed, or that did not start.
	// +optional
	LastFailure *Failure `json:"lastFailure,omitempty"`

	// nextScheduleTime is the next time that a run starts. It is absent while runs are
	// suspended.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`

	// lastHandledRunNow is the value of the annotation backup.example.com/run-now for which
	// a run was started last. A value of more than 253 characters is recorded as its hash.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	LastHandledRunNow string `json:"lastHandledRunNow,omitempty"`

	// children is what the operator knows of the children.
	// +optional
	Children childv1alpha1.ChildrenStatus `json:"children,omitzero"`
}

// Failure is a run that failed, or that did not start.
type Failure struct {
	// time is when the run failed, or should have started.
	// +required
	Time metav1.Time `json:"time"`

	// job is the name of the Job of the run.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Job string `json:"job,omitempty"`

	// reason is the reason in CamelCase.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says what failed. It holds no secrets.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}
