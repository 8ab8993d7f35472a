// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations by which a user asks for something at once.
const (
	// AnnotationRequestedAt asks for one full pass over the DemoApp each time that
	// its value changes. The value is free, at most 256 characters; a time is
	// usual. status.lastHandledRequestedAt repeats it when the pass is done.
	AnnotationRequestedAt = "demo.example.com/requested-at"
	// AnnotationForceAt asks for an upgrade although nothing has changed. It counts
	// when it has the value of AnnotationRequestedAt, and once for each value.
	AnnotationForceAt = "demo.example.com/force-at"
)

// AnnotationAdoptRelease has the operator take over a Helm release of the DemoApp's name,
// and its objects, that others made. Its value is "true". Without it, such a release is
// left alone, and the DemoApp is not installed.
const AnnotationAdoptRelease = "demo.example.com/adopt-release"

// ReleasePolicy is how the operator treats a release: when it may change it, and what it
// does when an attempt fails or others change the objects. A kind inlines it in its spec.
type ReleasePolicy struct {
	// suspend holds everything: nothing is installed, upgraded or repaired. Drift
	// is still reported, and deletion works. Defaults to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// upgradeWindow says when changes may be rolled out. Outside of it they wait;
	// the first install, the correction of drift and the deletion do not. Absent
	// means at any time.
	// +optional
	UpgradeWindow *UpgradeWindow `json:"upgradeWindow,omitempty"`

	// remediation says what to do about an install or upgrade that fails. Absent
	// means to try again with backoff for as long as it takes.
	// +optional
	Remediation *Remediation `json:"remediation,omitempty"`

	// drift says what to do when somebody else changed objects of the release.
	// Absent means to correct it.
	// +optional
	Drift *DriftPolicy `json:"drift,omitempty"`

	// maxHistory is how many revisions of the release are kept, 1 to 100. Defaults
	// to 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxHistory *int32 `json:"maxHistory,omitempty"`

	// timeout bounds one operation on the release and, with waitForReady, the time
	// in which the workload is to become healthy; 1s to 24h. Defaults to 5m. An
	// operation takes at most 1h, whatever the timeout is.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be 1s to 24h"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// waitForReady says that an install or upgrade has failed when its workload is
	// not healthy within timeout. Defaults to false: it succeeds when the API
	// server has taken the objects.
	// +optional
	WaitForReady bool `json:"waitForReady,omitempty"`
}

// UpgradeWindow says when changes may be rolled out. It opens at each time of
// the schedule and stays open for the duration.
type UpgradeWindow struct {
	// schedule says when the window opens, in the five fields of cron (minute,
	// hour, day of month, month, day of week) or as @hourly, @daily, @weekly,
	// @monthly or @yearly; at most 100 characters. A time that the change to
	// daylight-saving time skips opens the window one hour later; a time that
	// comes twice opens it once.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[^@ ]+( +[^ ]+){4})$`
	// +required
	Schedule string `json:"schedule"`

	// duration is how long the window stays open, 1m to 168h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="duration must be 1m to 168h"
	// +required
	Duration metav1.Duration `json:"duration"`

	// timeZone is the time zone of the schedule, by its name in the IANA
	// database, such as Europe/Berlin. Defaults to UTC.
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}

// RemediationStrategy is what happens when an upgrade has failed for good.
//
// +kubebuilder:validation:Enum=Rollback;None
type RemediationStrategy string

// The remediation strategies.
const (
	// RemediationRollback brings back the last revision that was good.
	RemediationRollback RemediationStrategy = "Rollback"
	// RemediationNone leaves the release as the last attempt left it.
	RemediationNone RemediationStrategy = "None"
)

// Remediation says what to do about an install or upgrade that fails.
type Remediation struct {
	// retries is how many times a failed install or upgrade is tried again, with
	// backoff, before the strategy is carried out, 0 to 100. Defaults to 3. A
	// change of the spec starts afresh.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Retries *int32 `json:"retries,omitempty"`

	// strategy is Rollback, which brings back the last revision that was good, or
	// None, which leaves everything as it is. Defaults to Rollback. A first install
	// has nothing to go back to and is left as it is.
	// +kubebuilder:default=Rollback
	// +optional
	Strategy RemediationStrategy `json:"strategy,omitempty"`
}

// DriftMode is what happens when somebody else changed objects of the release.
//
// +kubebuilder:validation:Enum=Correct;Warn;Off
type DriftMode string

// The drift modes.
const (
	// DriftCorrect reports drift and corrects it.
	DriftCorrect DriftMode = "Correct"
	// DriftWarn reports drift and leaves it.
	DriftWarn DriftMode = "Warn"
	// DriftOff neither reports nor corrects drift.
	DriftOff DriftMode = "Off"
)

// ForeignFieldsPolicy is what happens to fields that others add to objects of
// the release.
//
// +kubebuilder:validation:Enum=Keep;Remove
type ForeignFieldsPolicy string

// The policies for foreign fields.
const (
	// ForeignFieldsKeep leaves them alone.
	ForeignFieldsKeep ForeignFieldsPolicy = "Keep"
	// ForeignFieldsRemove treats them as drift.
	ForeignFieldsRemove ForeignFieldsPolicy = "Remove"
)

// DriftPolicy says what to do when somebody else changed objects of the
// release.
type DriftPolicy struct {
	// mode is Correct (drift is reported and corrected), Warn (drift is reported
	// and left) or Off (drift is neither reported nor corrected). Defaults to
	// Correct. The next upgrade overwrites what was left.
	// +kubebuilder:default=Correct
	// +optional
	Mode DriftMode `json:"mode,omitempty"`

	// ignore lists fields that others may change, at most 32 entries. Neither a
	// repair nor an upgrade sets them back.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Ignore []DriftIgnore `json:"ignore,omitempty"`

	// foreignFields is Keep, which leaves alone what others add inside objects of
	// the release (a key of a ConfigMap, a container, a label), or Remove, which
	// treats it as drift. Defaults to Keep. What the cluster's own controllers add
	// is never removed.
	// +kubebuilder:default=Keep
	// +optional
	ForeignFields ForeignFieldsPolicy `json:"foreignFields,omitempty"`
}

// DriftIgnore names fields of objects of the release that others may change.
type DriftIgnore struct {
	// kind is the kind of the objects, such as Deployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`

	// name is the name of the object. Absent means all objects of the kind.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	// paths are the fields, as JSON pointers (RFC 6901) such as /spec/replicas, 1
	// to 32. All that lies below a path is ignored, too. Of the metadata, only single
	// labels and annotations can be ignored, and not those by which Helm knows its
	// objects; apiVersion and kind cannot.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^(/([^~/]|~0|~1)+)+$`
	// +kubebuilder:validation:items:XValidation:rule="!((self + '/').startsWith('/apiVersion/') || (self + '/').startsWith('/kind/'))",message="apiVersion and kind cannot be ignored: name a field below spec, data or another part of the object"
	// +kubebuilder:validation:items:XValidation:rule="!(self + '/').startsWith('/metadata/') || self.startsWith('/metadata/labels/') || self.startsWith('/metadata/annotations/')",message="of the metadata, only single labels and annotations can be ignored, such as /metadata/labels/team"
	// +kubebuilder:validation:items:XValidation:rule="!['/metadata/labels/app.kubernetes.io~1managed-by/', '/metadata/annotations/meta.helm.sh~1release-name/', '/metadata/annotations/meta.helm.sh~1release-namespace/'].exists(mark, (self + '/').startsWith(mark))",message="the label app.kubernetes.io/managed-by and the annotations of meta.helm.sh cannot be ignored: the operator knows its objects by them"
	// +required
	Paths []string `json:"paths"`
}
