// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Conditions of an EcommercePlatform, in addition to Ready, Reconciling and Stalled. A component
// that is switched off has no condition. A component that is not ready has the reason of its
// children.
const (
	// ConditionDatabaseReady is True while the database is ready.
	ConditionDatabaseReady = "DatabaseReady"
	// ConditionCacheReady is True while the cache is ready.
	ConditionCacheReady = "CacheReady"
	// ConditionBackendReady is True while the backend is ready.
	ConditionBackendReady = "BackendReady"
	// ConditionFrontendReady is True while the frontend is ready.
	ConditionFrontendReady = "FrontendReady"
	// ConditionMonitoringReady is True while the ServiceMonitor and the dashboard are as
	// desired. It is False, while Ready may be True, if the API server does not serve
	// ServiceMonitors.
	ConditionMonitoringReady = "MonitoringReady"
	// ConditionIngressReady is True while the Ingress is as desired.
	ConditionIngressReady = "IngressReady"
	// ConditionBackupConfigured is True while backups are made: the Backup of the database is
	// Ready. It is Unknown until a PostgreSQL has reported. Reason and message come from the
	// PostgreSQL, or from the Backup of a mysql, unless one of the reasons below applies.
	ConditionBackupConfigured = "BackupConfigured"
)

// Reasons of the conditions of an EcommercePlatform, in addition to the reasons of kinds with children.
const (
	// ReasonHostTaken is a spec.ingress.host that another EcommercePlatform has.
	ReasonHostTaken = "HostTaken"
	// ReasonNotServed is a kind of children that the API server does not serve.
	ReasonNotServed = "NotServed"
	// ReasonBackupsOff is a platform whose backups are switched off.
	ReasonBackupsOff = "BackupsOff"
	// ReasonNoDestination is a platform whose backups are on, and of which nothing is backed up,
	// because neither the spec nor --default-backup-destination names a bucket.
	ReasonNoDestination = "NoDestination"
	// ReasonDestinationRetained is a platform whose backups are made to the former destination, because
	// nothing names a destination any more.
	ReasonDestinationRetained = "DestinationRetained"
	// ReasonConfigured is a platform whose backups are made.
	ReasonConfigured = "Configured"
)
