// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types that tell more than the kstatus contract does.
const (
	// ConditionInitialized is True once the DemoApp is bound to the chart.
	ConditionInitialized = "Initialized"
	// ConditionDeployed is True while the release is deployed as the spec says. It
	// is False, with the reason, when the last install or upgrade failed or could
	// not begin. It is what waitFor of another DemoApp waits for; with waitForReady,
	// a revision also has to have been healthy once.
	ConditionDeployed = "Deployed"
	// ConditionFailed is True while the last attempt failed, and absent otherwise.
	ConditionFailed = "Failed"
	// ConditionDrifted is True from the moment that a change by somebody else is
	// seen until it is corrected. Its message names the objects. It is absent
	// otherwise.
	ConditionDrifted = "Drifted"
)

// Condition types of the gates. Each is absent while its feature is not used.
// While several hold a change, each says so, and the message of Ready lists all
// of them.
const (
	// ConditionSuspended is True while spec.suspend is, and absent otherwise.
	ConditionSuspended = "Suspended"
	// ConditionUpgradeHeld is True while a change waits for the upgrade window, or a
	// newer chart for its turn, and absent otherwise.
	ConditionUpgradeHeld = "UpgradeHeld"
	// ConditionLicensed tells what the license server said of the app. It is absent
	// without a license server.
	ConditionLicensed = "Licensed"
	// ConditionRemediated is True after an upgrade failed for good and was dealt
	// with, until the spec changes or an upgrade succeeds. It is absent otherwise.
	ConditionRemediated = "Remediated"
)

// Reasons of Suspended.
const (
	// ReasonSuspendedBySpec is spec.suspend.
	ReasonSuspendedBySpec = "SuspendedBySpec"
)

// Reasons of UpgradeHeld, which Ready repeats where they are the cause.
const (
	// ReasonOutsideWindow is a change that waits for the upgrade window. The
	// message says when it opens next.
	ReasonOutsideWindow = "OutsideWindow"
	// ReasonInvalidSchedule is an upgrade window whose schedule or time zone cannot
	// be understood. A person must act: nothing is rolled out meanwhile.
	ReasonInvalidSchedule = "InvalidSchedule"
	// ReasonRolloutQueued is a newer chart that other DemoApps get first: as many as
	// --max-concurrent-rollouts allows are on their way to it.
	ReasonRolloutQueued = "RolloutQueued"
	// ReasonRolloutHalted is a newer chart that --rollout-failure-threshold DemoApps
	// have failed with. It is rolled out no further until some of them recover,
	// change or are deleted; the annotation demo.example.com/force-at upgrades a
	// DemoApp all the same.
	ReasonRolloutHalted = "RolloutHalted"
)

// Reasons of Licensed, which Ready repeats where they are the cause.
const (
	// ReasonLicenseGranted is a license server that said yes.
	ReasonLicenseGranted = "LicenseGranted"
	// ReasonLicenseDenied is a license server that said no.
	ReasonLicenseDenied = "LicenseDenied"
	// ReasonLicenseUnavailable is a license server that gave no answer that can be
	// used.
	ReasonLicenseUnavailable = "LicenseUnavailable"
)

// Reasons of Remediated, which Ready and Stalled repeat.
const (
	// ReasonRolledBack is a release that was brought back to its last good
	// revision.
	ReasonRolledBack = "RolledBack"
	// ReasonRetriesExhausted is a release that was left as the last attempt left
	// it.
	ReasonRetriesExhausted = "RetriesExhausted"
)

// Reasons of Initialized.
const (
	// ReasonChartLoaded is why Initialized is True: the embedded chart is valid.
	ReasonChartLoaded = "ChartLoaded"
)

// Reasons of Deployed, which Ready, Failed, Reconciling and Stalled repeat
// where they are the cause.
const (
	// ReasonInstallSucceeded is a first install that succeeded.
	ReasonInstallSucceeded = "InstallSucceeded"
	// ReasonUpgradeSucceeded is an upgrade that succeeded.
	ReasonUpgradeSucceeded = "UpgradeSucceeded"
	// ReasonInstallFailed is a first install that failed and is retried.
	ReasonInstallFailed = "InstallFailed"
	// ReasonUpgradeFailed is an upgrade that failed and is retried.
	ReasonUpgradeFailed = "UpgradeFailed"
	// ReasonRollbackFailed is a rollback that failed and is retried.
	ReasonRollbackFailed = "RollbackFailed"
	// ReasonRepairFailed is a correction of drift that failed and is retried.
	ReasonRepairFailed = "RepairFailed"
	// ReasonRenderFailed is a chart that does not render with these values. It is
	// terminal: only another spec or another chart helps.
	ReasonRenderFailed = "RenderFailed"
	// ReasonOutOfScope is an object of the release that lies outside the DemoApp's
	// namespace, or in none. Nothing is installed. It is terminal.
	ReasonOutOfScope = "OutOfScope"
	// ReasonReleaseBusy is a release that somebody else is changing, most likely
	// with the helm command.
	ReasonReleaseBusy = "ReleaseBusy"
	// ReasonReleaseTooLarge is a release that does not fit into the Secret that
	// Helm keeps it in. It is terminal.
	ReasonReleaseTooLarge = "ReleaseTooLarge"
)

// Reasons of Ready for a release that is deployed.
const (
	// ReasonHealthTimeout is a workload that did not become healthy within
	// spec.timeout, although spec.waitForReady asks for it.
	ReasonHealthTimeout = "HealthTimeout"
)

// Reasons of Drifted.
const (
	// ReasonObjectsChanged is drift of objects: changed, deleted or made anew by
	// somebody else.
	ReasonObjectsChanged = "ObjectsChanged"
	// ReasonForeignFields is drift that consists of fields which others added.
	ReasonForeignFields = "ForeignFields"
	// ReasonReleaseChanged is drift of the release itself: upgraded, rolled back
	// or uninstalled by somebody else, for example with the helm command.
	ReasonReleaseChanged = "ReleaseChanged"
)

// Reasons why values that valuesFrom names cannot be had. Ready, Deployed and
// Reconciling carry them.
const (
	// ReasonValuesNotFound is a ConfigMap or Secret, or a key in it, that does not
	// exist and is not optional.
	ReasonValuesNotFound = "ValuesNotFound"
	// ReasonValuesInvalid is a value that is not a YAML or JSON object.
	ReasonValuesInvalid = "ValuesInvalid"
)

// Reasons of Ready and Reconciling during deletion.
const (
	// ReasonUninstallFailed is a release that could not be uninstalled. The
	// deletion waits and is retried.
	ReasonUninstallFailed = "UninstallFailed"
	// ReasonUninstalled is a release that is uninstalled, of a DemoApp that
	// finalizers of others keep. Deployed has it as well.
	ReasonUninstalled = "Uninstalled"
)
