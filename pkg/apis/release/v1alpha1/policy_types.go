// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
)

// Annotations by which a user requests an action.
const (
	// AnnotationRequestedAt is [apimeta.AnnotationRequestedAt]. A release reads a value of at most
	// 256 characters, usually a time, and copies it to status.lastHandledRequestedAt after the
	// reconcile.
	AnnotationRequestedAt = apimeta.AnnotationRequestedAt
	// AnnotationForceAt requests an upgrade although nothing has changed. It takes effect once per
	// value, and only if its value equals the value of AnnotationRequestedAt.
	AnnotationForceAt = apimeta.AnnotationForceAt
)

// AnnotationAdoptRelease allows the operator to adopt a Helm release of the object's
// release name, and its objects, that another client created. Its value is "true". Without
// the annotation, such a release is not changed, and nothing is installed.
const AnnotationAdoptRelease = "demo.example.com/adopt-release"

// ReleasePolicy says when the operator may change a release, and how it handles failed attempts and
// drift. A kind inlines it in its spec.
type ReleasePolicy struct {
	// suspend holds all changes: nothing is installed, upgraded or repaired. Drift is
	// still reported, and deletion still works. Defaults to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// upgradeWindow says when changes may be rolled out. Outside of the window, changes
	// wait. The first install, the correction of drift and the deletion do not wait.
	// Absent means at any time.
	// +optional
	UpgradeWindow *UpgradeWindow `json:"upgradeWindow,omitempty"`

	// remediation says what to do after an install or upgrade failed. Absent means to
	// retry with backoff without a limit.
	// +optional
	Remediation *Remediation `json:"remediation,omitempty"`

	// drift says what to do when other clients change objects of the release. Absent
	// means to correct the drift.
	// +optional
	Drift *DriftPolicy `json:"drift,omitempty"`

	// maxHistory is the number of revisions of the release to keep, 1 to 100. Defaults to
	// 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxHistory *int32 `json:"maxHistory,omitempty"`

	// timeout limits one operation on the release, 1s to 24h. With waitForReady, it also
	// limits the time in which the workload must become healthy. Defaults to 5m. An
	// operation takes at most 1h even if timeout is longer.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be a duration from 1s to 24h, such as 90s or 1h30m"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// waitForReady says that an install or upgrade fails if its workload is not healthy
	// within timeout. Defaults to false: the install or upgrade succeeds once the API
	// server has accepted the objects.
	// +optional
	WaitForReady bool `json:"waitForReady,omitempty"`
}

// UpgradeWindow says when changes may be rolled out. It opens at each time of
// the schedule and stays open for the duration.
type UpgradeWindow struct {
	// schedule says when the window opens. It has the five fields of cron (minute, hour,
	// day of month, month, day of week) or is @hourly, @daily, @weekly, @monthly or
	// @yearly. It has at most 100 characters. A time that daylight-saving time skips
	// opens the window one hour later. A time that occurs twice opens the window once.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[^@ ]+( +[^ ]+){4})$')",message="must be the five fields of cron, such as 0 2 * * *, or one of @hourly, @daily, @weekly, @monthly and @yearly"
	// +required
	Schedule string `json:"schedule"`

	// duration is how long the window stays open, 1m to 168h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="must be a duration from 1m to 168h, such as 90m or 8h"
	// +required
	Duration metav1.Duration `json:"duration"`

	// timeZone is the time zone of the schedule: a name of the IANA database, such as
	// Europe/Berlin. Defaults to UTC.
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$')",message="must be the name of a time zone in the IANA database, such as Europe/Berlin"
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}

// RemediationStrategy is what the operator does when the retries are exhausted.
//
// +kubebuilder:validation:Enum=Rollback;None
type RemediationStrategy string

// The remediation strategies.
const (
	// RemediationRollback rolls back to the last good revision.
	RemediationRollback RemediationStrategy = "Rollback"
	// RemediationNone leaves the release as the last attempt left it.
	RemediationNone RemediationStrategy = "None"
)

// Remediation says what to do after an install or upgrade failed.
type Remediation struct {
	// retries is how many times a failed install or upgrade is retried, with backoff,
	// before the strategy applies, 0 to 100. Defaults to 3. A change of the spec resets
	// the count.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Retries *int32 `json:"retries,omitempty"`

	// strategy is Rollback (roll back to the last good revision) or None (leave the
	// release as it is). Defaults to Rollback. A failed first install is left as it is,
	// because there is no good revision.
	// +kubebuilder:default=Rollback
	// +optional
	Strategy RemediationStrategy `json:"strategy,omitempty"`
}

// DriftMode is what the operator does when other clients change objects of the release.
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

// ForeignFieldsPolicy is what the operator does about fields that other clients add to
// objects of the release.
//
// +kubebuilder:validation:Enum=Keep;Remove
type ForeignFieldsPolicy string

// The policies for foreign fields.
const (
	// ForeignFieldsKeep keeps the fields.
	ForeignFieldsKeep ForeignFieldsPolicy = "Keep"
	// ForeignFieldsRemove treats the fields as drift.
	ForeignFieldsRemove ForeignFieldsPolicy = "Remove"
)

// DriftPolicy says what to do when other clients change objects of the release.
type DriftPolicy struct {
	// mode is Correct (drift is reported and corrected), Warn (drift is reported only) or
	// Off (drift is neither reported nor corrected). Defaults to Correct. In all modes,
	// the next upgrade overwrites the drift.
	// +kubebuilder:default=Correct
	// +optional
	Mode DriftMode `json:"mode,omitempty"`

	// ignore lists fields that other clients may change, at most 32 entries. Neither a
	// repair nor an upgrade sets these fields back.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Ignore []DriftIgnore `json:"ignore,omitempty"`

	// foreignFields is Keep or Remove. Keep keeps what other clients add to objects of
	// the release, such as a key of a ConfigMap, a container or a label. Remove treats
	// these fields as drift. Defaults to Keep. Fields that the cluster's own controllers
	// add are never removed.
	// +kubebuilder:default=Keep
	// +optional
	ForeignFields ForeignFieldsPolicy `json:"foreignFields,omitempty"`
}

// DriftIgnore names fields that other clients may change in objects of the release.
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

	// paths are the fields, 1 to 32 JSON pointers (RFC 6901) such as /spec/replicas. All
	// fields below a path are ignored, too. In the metadata, only single labels and
	// annotations can be ignored, except those by which Helm identifies its objects.
	// apiVersion and kind cannot be ignored.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^(/([^~/]|~0|~1)+)+$')",message="must be a JSON pointer, such as /spec/replicas, with ~1 for '/' and ~0 for '~' within a name"
	// +kubebuilder:validation:items:XValidation:rule="!((self + '/').startsWith('/apiVersion/') || (self + '/').startsWith('/kind/'))",message="apiVersion and kind cannot be ignored: name a field below spec, data or another part of the object"
	// +kubebuilder:validation:items:XValidation:rule="!(self + '/').startsWith('/metadata/') || self.startsWith('/metadata/labels/') || self.startsWith('/metadata/annotations/')",message="in the metadata, only single labels and annotations can be ignored, such as /metadata/labels/team"
	// +kubebuilder:validation:items:XValidation:rule="!['/metadata/labels/app.kubernetes.io~1managed-by/', '/metadata/annotations/meta.helm.sh~1release-name/', '/metadata/annotations/meta.helm.sh~1release-namespace/'].exists(mark, (self + '/').startsWith(mark))",message="the label app.kubernetes.io/managed-by and the annotations of meta.helm.sh cannot be ignored: the operator identifies its objects by them"
	// +required
	Paths []string `json:"paths"`
}
