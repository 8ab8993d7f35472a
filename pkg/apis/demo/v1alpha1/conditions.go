// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types that tell more than the kstatus contract does.
const (
	// ConditionDependencyReady tells whether the DemoApp named in waitFor is
	// deployed. It is absent without waitFor.
	ConditionDependencyReady = "DependencyReady"
)

// Condition types of the gates. Each is absent while its feature is not used.
// While several hold a change, each says so, and the message of Ready lists all
// of them.
const (
	// ConditionValidated tells whether the app keeps the rules that only the
	// operator can check: its image is from an allowed registry, and no older app
	// of its namespace has its node port or its host. It is absent while all
	// registries are allowed and the app asks for nothing that another may have.
	ConditionValidated = "Validated"
	// ConditionExposed tells whether all that spec.ingress asks for is deployed. It
	// is absent without spec.ingress, and holds nothing.
	ConditionExposed = "Exposed"
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

// Reasons of Ready and Reconciling during deletion.
const (
	// ReasonAuditFailed is an audit record that could not be written. The deletion
	// waits and is retried.
	ReasonAuditFailed = "AuditFailed"
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
