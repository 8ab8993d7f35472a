// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"

// Condition types of a release, in addition to the types of the kstatus contract.
const (
	// ConditionInitialized is True once the object is bound to the chart.
	ConditionInitialized = "Initialized"
	// ConditionDeployed is True while the desired release is deployed. It is False if the last
	// install or upgrade failed or could not begin. For DemoApps, the waitFor of another DemoApp
	// waits for this condition. If waitForReady is set, the deployed revision must also have been
	// healthy once.
	ConditionDeployed = "Deployed"
	// ConditionFailed is True while the last attempt failed. It is absent otherwise.
	ConditionFailed = "Failed"
	// ConditionDrifted is True while objects have drifted, and for a moment after they
	// were corrected. Its message names the objects. It is absent otherwise.
	ConditionDrifted = "Drifted"
	// ConditionAdjusted is True while the objects of the deployed revision are not exactly as the
	// manifest has them. Its message names the parts that were left out. It is absent otherwise.
	ConditionAdjusted = "Adjusted"
)

// Condition types of the gates. Each is absent while its feature is not used. If several
// gates hold a change, each sets its own condition, and the message of Ready lists all of
// them.
const (
	// ConditionSuspended is True while spec.suspend is true, or an annotation of the object
	// or its Namespace suspends the object. It is absent otherwise.
	ConditionSuspended = "Suspended"
	// ConditionUpgradeHeld is True while a change waits for the upgrade window, a change of the
	// operator waits for its turn, or a takeover waits for consent. It is absent otherwise.
	ConditionUpgradeHeld = apimeta.ConditionUpgradeHeld
	// ConditionLicensed reports the last answer of the license server. It is absent
	// without a license server.
	ConditionLicensed = "Licensed"
	// ConditionDependencyReady says whether the objects that waitFor names are ready. The condition is
	// absent without waitFor.
	ConditionDependencyReady = "DependencyReady"
	// ConditionRemediated is True after the failed attempts exhausted their retries and
	// were remediated. It is removed when the spec changes or an upgrade succeeds.
	ConditionRemediated = "Remediated"
)

// Reasons of Suspended.
const (
	// ReasonSuspendedBySpec means that spec.suspend is true.
	ReasonSuspendedBySpec = "SuspendedBySpec"
)

// Reasons of UpgradeHeld. Ready repeats them when they are the cause.
const (
	// ReasonOutsideWindow means that a change waits for the upgrade window. The message
	// has the time at which the window opens.
	ReasonOutsideWindow = "OutsideWindow"
	// ReasonInvalidSchedule means that the schedule or time zone of the upgrade window is
	// invalid. No change is rolled out until a user corrects it.
	ReasonInvalidSchedule = "InvalidSchedule"
	// ReasonRolloutQueued means that a change of the operator, such as another chart or default
	// value, waits for its turn, because --max-concurrent-rollouts objects of the kind get it
	// at a time.
	ReasonRolloutQueued = apimeta.ReasonRolloutQueued
	// ReasonRolloutHalted means that the rollout of a change of the operator is halted, because
	// --rollout-failure-threshold objects of the namespace failed with it, or objects of as many
	// namespaces. The rollout continues when some of them recover, change or are deleted. The
	// annotation demo.example.com/force-at upgrades an object anyway.
	ReasonRolloutHalted = apimeta.ReasonRolloutHalted
	// ReasonTakeoverHeld means that the takeover of a release would delete or replace objects, or change pods.
	// The message names them. The annotation demo.example.com/force-at, set to a new value, consents.
	ReasonTakeoverHeld = "TakeoverHeld"
)

// Reasons of Licensed. Ready repeats them when they are the cause.
const (
	// ReasonLicenseGranted means that the license server granted the license.
	ReasonLicenseGranted = "LicenseGranted"
	// ReasonLicenseDenied means that the license server denied the license.
	ReasonLicenseDenied = "LicenseDenied"
	// ReasonLicenseUnavailable means that the license server gave no valid answer.
	ReasonLicenseUnavailable = "LicenseUnavailable"
)

// Reasons of Remediated. Ready and Stalled repeat them.
const (
	// ReasonRolledBack means that the release was rolled back to its last good revision. The
	// message says what leads to the next attempt.
	ReasonRolledBack = "RolledBack"
	// ReasonRetriesExhausted means that the release was left as the last attempt left it.
	ReasonRetriesExhausted = "RetriesExhausted"
)

// Reasons of Initialized.
const (
	// ReasonChartLoaded is the reason of Initialized=True: the embedded chart is valid.
	ReasonChartLoaded = "ChartLoaded"
)

// Reasons of Deployed. Ready, Failed, Reconciling and Stalled repeat them when they are
// the cause.
const (
	// ReasonInstallSucceeded means that the first install succeeded.
	ReasonInstallSucceeded = "InstallSucceeded"
	// ReasonUpgradeSucceeded means that an upgrade succeeded.
	ReasonUpgradeSucceeded = "UpgradeSucceeded"
	// ReasonInstallFailed means that an install failed and is retried.
	ReasonInstallFailed = "InstallFailed"
	// ReasonUpgradeFailed means that an upgrade failed and is retried.
	ReasonUpgradeFailed = "UpgradeFailed"
	// ReasonRollbackFailed means that a rollback failed and is retried.
	ReasonRollbackFailed = "RollbackFailed"
	// ReasonRepairFailed means that a correction of drift failed and is retried.
	ReasonRepairFailed = "RepairFailed"
	// ReasonRenderFailed means that the chart does not render with these values. If its
	// templates read the cluster, it is tried again. Otherwise, the spec, its values or the
	// chart must change.
	ReasonRenderFailed = "RenderFailed"
	// ReasonOutOfScope means that an object of the release is in another namespace than
	// the release, or is cluster-scoped. Nothing is installed. It is terminal.
	ReasonOutOfScope = "OutOfScope"
	// ReasonReleaseBusy means that another client is changing the release, most likely
	// the helm command.
	ReasonReleaseBusy = "ReleaseBusy"
	// ReasonReleaseTooLarge means that the release does not fit into the Secret of its
	// Helm record. It is terminal.
	ReasonReleaseTooLarge = "ReleaseTooLarge"
)

// Reasons of Ready of a deployed release.
const (
	// ReasonHealthTimeout means that spec.waitForReady is set, and the workload did not
	// become healthy within spec.timeout.
	ReasonHealthTimeout = "HealthTimeout"
)

// Reasons of Drifted.
const (
	// ReasonObjectsChanged means that another client changed, deleted or recreated
	// objects.
	ReasonObjectsChanged = "ObjectsChanged"
	// ReasonForeignFields means that the drift consists only of fields that other clients
	// added.
	ReasonForeignFields = "ForeignFields"
	// ReasonReleaseChanged means that another client upgraded, rolled back or uninstalled
	// the release, for example with the helm command.
	ReasonReleaseChanged = "ReleaseChanged"
)

// Reasons of Adjusted.
const (
	// ReasonManifestAdjusted means that the manifest has items with equal keys in one list,
	// metadata that only the API server sets, or fields that the API server does not know. The
	// message names file, object and field.
	ReasonManifestAdjusted = "ManifestAdjusted"
)

// Reasons of DependencyReady. Ready and Deployed repeat them when they are the cause.
const (
	// ReasonWaiting means that an object that waitFor names does not exist, is not deployed or ready,
	// or is being deleted. If that object sets waitForReady, the reason also stands until its deployed
	// revision has been healthy once.
	ReasonWaiting = "Waiting"
	// ReasonDependencyDeployed means that all objects that waitFor names are deployed or ready.
	ReasonDependencyDeployed = "DependencyDeployed"
	// ReasonDependencyCycle means that the chain of waitFor leads back to this object. The reason is
	// terminal: one of the objects in the message must change.
	ReasonDependencyCycle = "DependencyCycle"
	// ReasonDependencyRefused means that waitFor names too many objects, or an object of another
	// namespace that the operator does not share. The reason is terminal: waitFor must change.
	ReasonDependencyRefused = "DependencyRefused"
)

// Reasons why a key of a Secret that the object names, such as apiKeyFrom of a DemoApp, is
// unavailable. Ready, Deployed and Reconciling carry them. The release is deployed as soon as the
// key is available.
const (
	// ReasonSecretNotFound means that the Secret does not exist.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonKeyNotFound means that the Secret does not have the key.
	ReasonKeyNotFound = "KeyNotFound"
	// ReasonKeyInvalid means that the value is too short, too long or not valid UTF-8.
	ReasonKeyInvalid = "KeyInvalid"
)

// Reasons why values that valuesFrom names are unavailable. Ready, Deployed and
// Reconciling carry them.
const (
	// ReasonValuesNotFound means that a ConfigMap or Secret, or a key in it, does not
	// exist and is not optional.
	ReasonValuesNotFound = "ValuesNotFound"
	// ReasonValuesInvalid means that a value is not a YAML or JSON object.
	ReasonValuesInvalid = "ValuesInvalid"
)

// Reasons of Ready and Reconciling during deletion.
const (
	// ReasonUninstallFailed means that the release could not be uninstalled. The deletion
	// waits, and the uninstall is retried.
	ReasonUninstallFailed = "UninstallFailed"
	// ReasonUninstalled means that the release is uninstalled, and finalizers of other
	// owners keep the object. Deployed has this reason, too.
	ReasonUninstalled = "Uninstalled"
)
