// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of the kstatus contract, which "kubectl wait", Argo CD, Flux
// and Helm read. All of them carry the observed generation.
const (
	// ConditionReady is True while the release is deployed as the spec says and
	// its workload is healthy. It is always present after the first visit. Its
	// reason is the most telling one: that of the condition that keeps the app
	// from being ready.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the operator works towards the spec or
	// waits for something that is expected to come by itself. It is absent
	// otherwise.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while the operator cannot go on until a person
	// acts. It is absent otherwise, and never present together with Reconciling.
	ConditionStalled = "Stalled"
)

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
	// ConditionDependencyReady tells whether the DemoApp named in waitFor is
	// deployed. It is absent without waitFor.
	ConditionDependencyReady = "DependencyReady"
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
	// ConditionValidated tells whether the app keeps the rules that only the
	// operator can check: its image is from an allowed registry, and no older app
	// of its namespace has its node port or its host. It is absent while all
	// registries are allowed and the app asks for nothing that another may have.
	ConditionValidated = "Validated"
	// ConditionExposed tells whether all that spec.ingress asks for is deployed. It
	// is absent without spec.ingress, and holds nothing.
	ConditionExposed = "Exposed"
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

// Reasons of Validated, which Ready and Deployed repeat where they are the
// cause.
const (
	// ReasonValidationSucceeded is an app that keeps the rules.
	ReasonValidationSucceeded = "ValidationSucceeded"
	// ReasonValidationFailed is an app that breaks them. A person must act: nothing
	// new is rolled out meanwhile. Of a DemoAppCluster, it is a template or a
	// selector that the API server refuses.
	ReasonValidationFailed = "ValidationFailed"
)

// Reasons of Exposed.
const (
	// ReasonRouteDeployed is an app whose Ingress and HTTPRoute are deployed, as far
	// as they are asked for.
	ReasonRouteDeployed = "RouteDeployed"
	// ReasonRouteNotDeployed is an app whose Ingress or HTTPRoute is not deployed
	// yet. Ready says what it waits for.
	ReasonRouteNotDeployed = "RouteNotDeployed"
	// ReasonIngressClassMissing is an IngressClass that the cluster does not have.
	// The Ingress is made as soon as it does.
	ReasonIngressClassMissing = "IngressClassMissing"
	// ReasonGatewayAPIMissing is a cluster without the kind HTTPRoute of
	// gateway.networking.k8s.io/v1. The HTTPRoute is made as soon as it has it.
	ReasonGatewayAPIMissing = "GatewayAPIMissing"
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
	// ReasonRefused is an object that the API server refuses, by validation or
	// admission. It is terminal where the same object would be refused again.
	ReasonRefused = "Refused"
	// ReasonOwnershipConflict is an object of the release, or the release itself, that
	// exists already and belongs to another owner. It is not touched, and nothing is
	// installed.
	ReasonOwnershipConflict = "OwnershipConflict"
	// ReasonOutOfScope is an object of the release that lies outside the DemoApp's
	// namespace, or in none. Nothing is installed. It is terminal.
	ReasonOutOfScope = "OutOfScope"
	// ReasonObserveFailed is a failure to read what is needed to decide; it is
	// retried. Exposed has it as well.
	ReasonObserveFailed = "ObserveFailed"
	// ReasonReleaseBusy is a release that somebody else is changing, most likely
	// with the helm command.
	ReasonReleaseBusy = "ReleaseBusy"
	// ReasonReleaseTooLarge is a release that does not fit into the Secret that
	// Helm keeps it in. It is terminal.
	ReasonReleaseTooLarge = "ReleaseTooLarge"
)

// Reasons of Ready for a release that is deployed.
const (
	// ReasonHealthy is why Ready is True: every object of the release is current
	// by kstatus.
	ReasonHealthy = "Healthy"
	// ReasonProgressing is a workload on its way, for example pods that start.
	ReasonProgressing = "Progressing"
	// ReasonHealthTimeout is a workload that did not become healthy within
	// spec.timeout, although spec.waitForReady asks for it.
	ReasonHealthTimeout = "HealthTimeout"
	// ReasonUnhealthy is a workload that failed by its own account, for example a
	// Deployment past its progress deadline.
	ReasonUnhealthy = "Unhealthy"
)

// Reasons of DependencyReady, which Ready and Deployed repeat where they are
// the cause.
const (
	// ReasonWaiting is a DemoApp named in waitFor that does not exist, is not
	// deployed yet, is being deleted or, if it has waitForReady, was not healthy yet.
	ReasonWaiting = "Waiting"
	// ReasonDependencyDeployed is a DemoApp named in waitFor that is deployed.
	ReasonDependencyDeployed = "DependencyDeployed"
	// ReasonDependencyCycle is a chain of waitFor that leads back to this DemoApp.
	// It is terminal: one of those named in the message must change.
	ReasonDependencyCycle = "DependencyCycle"
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

// Reasons why the API key that apiKeyFrom names cannot be had. Ready, Deployed
// and Reconciling carry them; the release is deployed as soon as the key
// appears.
const (
	// ReasonSecretNotFound is a Secret that does not exist.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonKeyNotFound is a Secret without the key.
	ReasonKeyNotFound = "KeyNotFound"
	// ReasonKeyInvalid is a value outside the limits of apiKey, or not valid
	// UTF-8.
	ReasonKeyInvalid = "KeyInvalid"
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
	// ReasonAuditFailed is an audit record that could not be written. The deletion
	// waits and is retried.
	ReasonAuditFailed = "AuditFailed"
	// ReasonUninstallFailed is a release that could not be uninstalled. The
	// deletion waits and is retried.
	ReasonUninstallFailed = "UninstallFailed"
	// ReasonFinalizerFailed is a finalizer that could not be removed, after all
	// else was done: an admission rule refuses it. The deletion waits and is
	// retried.
	ReasonFinalizerFailed = "FinalizerFailed"
	// ReasonUninstalled is a release that is uninstalled, of a DemoApp that
	// finalizers of others keep. Deployed has it as well.
	ReasonUninstalled = "Uninstalled"
)

// Reasons of Ready of a DemoAppCluster.
const (
	// ReasonAllReady is a DemoAppCluster whose nodes all have their DemoApp, up to
	// date and ready.
	ReasonAllReady = "AllReady"
	// ReasonRollingOut is a DemoAppCluster that makes, changes or deletes DemoApps,
	// or waits for them to become ready.
	ReasonRollingOut = "RollingOut"
	// ReasonAppsFailed is a DemoAppCluster with DemoApps that a person must look
	// at.
	ReasonAppsFailed = "AppsFailed"
	// ReasonNameConflict is a DemoApp that exists already and does not belong to
	// the DemoAppCluster that would make it.
	ReasonNameConflict = "NameConflict"
)
