// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of the upstream operators, in addition to Ready, Reconciling, Stalled and the
// types of a release. Initialized and Deployed are also conditions of the release.
const (
	// ConditionReleaseFailed is True while the last install, upgrade, uninstall or repair
	// failed. It is absent otherwise.
	ConditionReleaseFailed = "ReleaseFailed"
	// ConditionIrreconcilable is True while the custom resource cannot be reconciled, and
	// False otherwise.
	ConditionIrreconcilable = "Irreconcilable"
	// ConditionPaused is True while the pause annotation is true. It is absent otherwise.
	ConditionPaused = "Paused"
)

// Reasons of Deployed.
const (
	// ReasonInstallSuccessful means that the release is deployed in its first revision.
	ReasonInstallSuccessful = "InstallSuccessful"
	// ReasonUpgradeSuccessful means that the release is deployed in a later revision.
	ReasonUpgradeSuccessful = "UpgradeSuccessful"
	// ReasonUninstallSuccessful means that the release is uninstalled, and the custom resource
	// still exists: finalizers of other owners keep it, or its deletion waits for objects.
	ReasonUninstallSuccessful = "UninstallSuccessful"
)

// Reasons of ReleaseFailed and Irreconcilable.
const (
	// ReasonInstallError means that an install failed.
	ReasonInstallError = "InstallError"
	// ReasonUpgradeError means that an upgrade or a rollback failed.
	ReasonUpgradeError = "UpgradeError"
	// ReasonUninstallError means that the uninstall failed. It is retried.
	ReasonUninstallError = "UninstallError"
	// ReasonReconcileError means that another step failed, such as a repair or a hook of
	// the library. As the reason of Irreconcilable, it stands for every failed step.
	ReasonReconcileError = "ReconcileError"
	// ReasonErrorGettingClient means that the operator may not act as the service account.
	ReasonErrorGettingClient = "ErrorGettingClient"
	// ReasonErrorGettingValues means that the values of the release cannot be determined.
	ReasonErrorGettingValues = "ErrorGettingValues"
	// ReasonErrorGettingReleaseState means that the release could not be observed.
	ReasonErrorGettingReleaseState = "ErrorGettingReleaseState"
	// ReasonReconciled is the reason of Irreconcilable=False.
	ReasonReconciled = "Reconciled"
)

// Reasons of Paused, and of Ready while a deletion waits.
const (
	// ReasonPauseReconcileAnnotationTrue is the reason of Paused=True.
	ReasonPauseReconcileAnnotationTrue = "PauseReconcileAnnotationTrue"
	// ReasonUninstallWaits means that the annotation uninstall-wait is true, and objects of
	// the release still exist.
	ReasonUninstallWaits = "UninstallWaits"
)

// Finalizers of the upstream operators.
const (
	// Finalizer is operator-sdk's. The operator adds it to each custom resource.
	Finalizer = annotationPrefix + "uninstall-release"
	// FormerFinalizer is the finalizer of helm-operator-plugins. The operator replaces it.
	FormerFinalizer = "uninstall-helm-release"
)

const annotationPrefix = "helm.sdk.operatorframework.io/"

// Annotations of a custom resource. Booleans have the forms of strconv.ParseBool. An invalid value
// counts as false.
const (
	// AnnotationInstallDisableHooks skips the chart's hooks of an install.
	AnnotationInstallDisableHooks = annotationPrefix + "install-disable-hooks"
	// AnnotationUpgradeDisableHooks skips the chart's hooks of an upgrade or rollback.
	AnnotationUpgradeDisableHooks = annotationPrefix + "upgrade-disable-hooks"
	// AnnotationUninstallDisableHooks skips the chart's hooks of the uninstall.
	AnnotationUninstallDisableHooks = annotationPrefix + "uninstall-disable-hooks"
	// AnnotationInstallDescription is the description of the first revision.
	AnnotationInstallDescription = annotationPrefix + "install-description"
	// AnnotationUpgradeDescription is the description of later revisions.
	AnnotationUpgradeDescription = annotationPrefix + "upgrade-description"
	// AnnotationUninstallDescription is the description of the newest revision during an uninstall
	// that runs hooks, and after a failed uninstall.
	AnnotationUninstallDescription = annotationPrefix + "uninstall-description"
	// AnnotationUpgradeForce has an upgrade replace objects whose update is refused.
	AnnotationUpgradeForce = annotationPrefix + "upgrade-force"
	// AnnotationRollbackForce has a rollback replace objects whose update is refused, unless
	// its value is false. A failed upgrade is rolled back either way.
	AnnotationRollbackForce = annotationPrefix + "rollback-force"
	// AnnotationUninstallWait has a deletion wait until all objects of the release are gone.
	AnnotationUninstallWait = annotationPrefix + "uninstall-wait"
	// AnnotationReconcilePeriod is the time between two periodic reconciles, as a Go
	// duration. It replaces the period of the kind.
	AnnotationReconcilePeriod = annotationPrefix + "reconcile-period"
	// AnnotationPaused is the default annotation that pauses a custom resource.
	AnnotationPaused = "demo.example.com/paused"
)
