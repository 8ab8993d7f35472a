// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
)

// LabelPlatform is the label of everything of an EcommercePlatform that holds its name.
// LabelComponent holds the name of the component.
const (
	LabelPlatform  = "platform"
	LabelComponent = "component"
)

// Values of EcommercePlatformSpec.Environment.
const (
	EnvironmentDevelopment = "development"
	EnvironmentStaging     = "staging"
	EnvironmentProduction  = "production"
)

// Values of PlatformDatabase.Type.
const (
	DatabasePostgreSQL = "postgresql"
	DatabaseMySQL      = "mysql"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ecommerceplatforms,singular=ecommerceplatform,scope=Namespaced,shortName=shop,categories=all;platform;demoapp-controller
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`,description="development, staging or production."
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Summary of the conditions."
// +kubebuilder:printcolumn:name="Frontend",type=string,JSONPath=`.status.endpoints.frontend`,description="Where the frontend is reached."
// +kubebuilder:printcolumn:name="Backups",type=string,JSONPath=`.status.conditions[?(@.type=='BackupConfigured')].reason`,description="Whether backups are made: Configured, BackupsOff, or why they are not made."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the EcommercePlatform was created."
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 34 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS-1035 label of at most 34 characters (lower-case letters, digits and '-', beginning with a letter, ending with a letter or digit): the PostgreSQL is named <name>-db, and has at most 37 characters",fieldPath=".metadata"

// EcommercePlatform runs a shop: a database, a cache, a backend, a frontend, monitoring and an
// Ingress. Failover of the database is manual, replication is asynchronous, and there is no
// recovery to a point in time.
type EcommercePlatform struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name is a DNS-1035 label of at most 34
	// characters: the PostgreSQL is named <name>-db, and has at most 37 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec EcommercePlatformSpec `json:"spec"`

	// status is the observed state. The operator alone writes it.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status EcommercePlatformStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// EcommercePlatformList is a list of EcommercePlatforms.
type EcommercePlatformList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the EcommercePlatforms.
	Items []EcommercePlatform `json:"items"`
}

// EcommercePlatformSpec is the desired state of an EcommercePlatform.
type EcommercePlatformSpec struct {
	// environment selects defaults: development, staging or production. Production also has
	// PodDisruptionBudgets, topology spread, limits and NetworkPolicies. Defaults to
	// development.
	// +kubebuilder:default=development
	// +kubebuilder:validation:Enum=development;staging;production
	// +optional
	Environment string `json:"environment,omitempty"`

	// frontend is what customers see.
	// +required
	Frontend PlatformComponent `json:"frontend"`

	// backend reaches the database and the cache.
	// +required
	Backend PlatformComponent `json:"backend"`

	// database holds the data of the shop.
	// +kubebuilder:default={}
	// +optional
	Database PlatformDatabase `json:"database,omitzero"`

	// cache is the cache of the backend.
	// +kubebuilder:default={}
	// +optional
	Cache PlatformCache `json:"cache,omitzero"`

	// monitoring adds a ServiceMonitor and a dashboard.
	// +kubebuilder:default={}
	// +optional
	Monitoring PlatformMonitoring `json:"monitoring,omitzero"`

	// ingress makes the frontend reachable from outside of the cluster.
	// +optional
	Ingress *PlatformIngress `json:"ingress,omitempty"`
}

// PlatformComponent is the frontend or the backend of an EcommercePlatform.
type PlatformComponent struct {
	// image is the container image.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches('^((([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)([.][a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*|[\\[][a-fA-F0-9:]+[\\]])(:[0-9]+)?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?(@[a-zA-Z][a-zA-Z0-9]*([-_+.][a-zA-Z][a-zA-Z0-9]*)*:[a-fA-F0-9]{32,})?$')`,message="must be an image reference such as nginx:1.27-alpine, registry.example.com/team/web:v1 or nginx@sha256:<digest>"
	// +required
	Image string `json:"image"`

	// replicas is the number of pods, 1 to 100. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// port is where the container listens. Defaults to 80 for the official images caddy, httpd and nginx of Docker
	// Hub, else to 8080.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// resources are the compute resources of each pod. The default requests keep the pods out
	// of the QoS class BestEffort; in production there are limits, too.
	// +optional
	Resources *workloadv1alpha1.Resources `json:"resources,omitempty"`

	// securityContext is the user of the container. With runAsNonRoot true, or a runAsUser other than
	// 0, in production and in namespaces that enforce the restricted Pod Security profile, the pods meet this
	// profile. Otherwise they may run as root.
	// +optional
	SecurityContext *workloadv1alpha1.UserContext `json:"securityContext,omitempty"`
}

// PlatformDatabase is the database of an EcommercePlatform.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'postgresql' || !has(self.version) || self.version in ['12', '13', '14', '15', '16', '17', '18']",message="must be a major version of PostgreSQL, 12 to 18",fieldPath=".version"
// +kubebuilder:validation:XValidation:rule="self.type != 'mysql' || !has(self.version) || self.version.matches('^(5[.]7|8|9)([.][0-9]{1,2}){0,2}$')",message="must be a version of MySQL, 5.7, 8 or 9, such as 8.4",fieldPath=".version"
// +kubebuilder:validation:XValidation:rule="self.type != 'mysql' || !has(self.replicas) || self.replicas == 1",message="must be 1 for a mysql, whose servers are not replicated",fieldPath=".replicas"
type PlatformDatabase struct {
	// type is postgresql or mysql. It cannot be changed. Defaults to postgresql.
	// +kubebuilder:default=postgresql
	// +kubebuilder:validation:Enum=postgresql;mysql
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed, because the data stays in the old database: create another EcommercePlatform"
	// +optional
	Type string `json:"type,omitempty"`

	// version is the version of the database: a major version of PostgreSQL, 12 to 18, or a
	// version of MySQL such as 8.4, which is a tag of the image. Defaults to 17 for postgresql and 8.4 for mysql.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Version string `json:"version,omitempty"`

	// storage is the size of each volume in Gi. Defaults to 10Gi in development, 50Gi in
	// staging and 100Gi in production. The volume of a postgresql may grow if the StorageClass
	// allows it. A smaller size is not carried out: the condition DatabaseReady says so. The size
	// of a mysql cannot be changed.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^0*[1-9][0-9]*Gi$')",message="must be a size in Gi of at least 1Gi, such as 10Gi"
	// +optional
	Storage string `json:"storage,omitempty"`

	// replicas is the number of servers of a postgresql, 1 to 5. Defaults to 1 in
	// development, 2 in staging and 3 in production. A mysql has one server.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// resources are the compute resources of each server. The default requests keep the pods out
	// of the QoS class BestEffort; in production there are limits, too.
	// +optional
	Resources *workloadv1alpha1.Resources `json:"resources,omitempty"`

	// backup overrides the backups of the environment.
	// +optional
	Backup *PlatformBackup `json:"backup,omitempty"`
}

// PlatformBackup overrides the backups of an environment.
type PlatformBackup struct {
	// enabled makes backups. Defaults to false in development, else to true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// required makes Ready depend on the backups: Ready is False while the condition
	// BackupConfigured is. Without it, a platform without a destination is Ready. Defaults to false.
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

// PlatformCache is the cache of an EcommercePlatform.
type PlatformCache struct {
	// enabled runs a cache. Defaults to true.
	// +kubebuilder:default=true
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// resources are the compute resources of the pod. The default requests keep the pods out
	// of the QoS class BestEffort; in production there are limits, too.
	// +optional
	Resources *workloadv1alpha1.Resources `json:"resources,omitempty"`
}

// PlatformMonitoring is the monitoring of an EcommercePlatform.
type PlatformMonitoring struct {
	// enabled adds a ServiceMonitor, if the API server serves that kind, and a ConfigMap
	// with a dashboard. Defaults to true.
	// +kubebuilder:default=true
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// PlatformIngress makes the frontend reachable from outside of the cluster.
type PlatformIngress struct {
	// host is the DNS name of the shop.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be a DNS name in lower case, such as shop.example.com"
	// +required
	Host string `json:"host"`

	// className is the IngressClass. The default is the default IngressClass of the cluster.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an IngressClass: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +optional
	ClassName string `json:"className,omitempty"`

	// tlsSecret is the name of a Secret with the certificate of the host.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +optional
	TLSSecret string `json:"tlsSecret,omitempty"`
}

// EcommercePlatformStatus is the observed state of an EcommercePlatform.
type EcommercePlatformStatus struct {
	// conditions are Ready, Reconciling and Stalled, as in the kstatus contract, and one for each
	// component.
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

	// host is the host that the Ingress serves. No other EcommercePlatform gets it meanwhile.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Host string `json:"host,omitempty"`

	// endpoints are where the components are reached.
	// +optional
	Endpoints PlatformEndpoints `json:"endpoints,omitzero"`

	// children is what the operator knows of the children.
	// +optional
	Children childv1alpha1.ChildrenStatus `json:"children,omitzero"`
}

// PlatformEndpoints are where the components of an EcommercePlatform are reached.
type PlatformEndpoints struct {
	// frontend is the URL of the Ingress, or else host:port within the cluster.
	// +kubebuilder:validation:MaxLength=320
	// +optional
	Frontend string `json:"frontend,omitempty"`

	// backend is host:port within the cluster.
	// +kubebuilder:validation:MaxLength=320
	// +optional
	Backend string `json:"backend,omitempty"`

	// database is host:port within the cluster.
	// +kubebuilder:validation:MaxLength=320
	// +optional
	Database string `json:"database,omitempty"`

	// cache is host:port within the cluster.
	// +kubebuilder:validation:MaxLength=320
	// +optional
	Cache string `json:"cache,omitempty"`
}
