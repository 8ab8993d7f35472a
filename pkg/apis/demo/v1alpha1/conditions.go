// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of the gates. Each is absent while its feature is not used. If several
// gates hold a change, each sets its own condition, and the message of Ready lists all of
// them.
const (
	// ConditionValidated says whether the DemoApp passes the checks that only the
	// operator can make. The image must be from an allowed registry. No older DemoApp of
	// the namespace may have the same node port or host. The condition is absent if all
	// registries are allowed and the DemoApp requests neither a node port nor a host.
	ConditionValidated = "Validated"
	// ConditionExposed says whether every object that spec.ingress requests is deployed.
	// The condition is absent without spec.ingress. It holds no change.
	ConditionExposed = "Exposed"
)

// Reasons of Validated. Ready and Deployed repeat them when they are the cause.
const (
	// ReasonValidationSucceeded means that all checks passed.
	ReasonValidationSucceeded = "ValidationSucceeded"
	// ReasonValidationFailed means that a check failed. No change is rolled out until a
	// user corrects the object. On a DemoAppCluster, the API server refused the template
	// or the selector.
	ReasonValidationFailed = "ValidationFailed"
)

// Reasons of Exposed.
const (
	// ReasonRouteDeployed means that the requested Ingress and HTTPRoute are deployed.
	ReasonRouteDeployed = "RouteDeployed"
	// ReasonRouteNotDeployed means that the Ingress or HTTPRoute is not deployed yet.
	// Ready has the cause.
	ReasonRouteNotDeployed = "RouteNotDeployed"
	// ReasonIngressClassMissing means that the IngressClass does not exist. The Ingress
	// is created as soon as the IngressClass exists.
	ReasonIngressClassMissing = "IngressClassMissing"
	// ReasonGatewayAPIMissing means that the cluster does not serve HTTPRoute of
	// gateway.networking.k8s.io/v1. The HTTPRoute is created as soon as the cluster
	// serves the kind.
	ReasonGatewayAPIMissing = "GatewayAPIMissing"
)

// Reasons of Ready and Reconciling during deletion.
const (
	// ReasonAuditFailed means that the audit record could not be written. The deletion
	// waits, and the write is retried.
	ReasonAuditFailed = "AuditFailed"
)

// Reasons of Ready of a DemoAppCluster.
const (
	// ReasonAllReady means that every selected node has its DemoApp, and all DemoApps are
	// up to date and ready.
	ReasonAllReady = "AllReady"
	// ReasonRollingOut means that DemoApps are being created, updated or deleted, or are
	// not ready yet.
	ReasonRollingOut = "RollingOut"
	// ReasonAppsFailed means that DemoApps failed and need a user's attention.
	ReasonAppsFailed = "AppsFailed"
	// ReasonNameConflict means that a DemoApp of the desired name exists and has another
	// owner.
	ReasonNameConflict = "NameConflict"
)
