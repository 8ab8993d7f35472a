// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ecommerceplatform

import (
	"cmp"

	"k8s.io/utils/ptr"

	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/tier"
)

// environment has the defaults of an environment, which the spec may override.
type environment struct {
	replicas int32  // of the database
	storage  string // of each server of the database
	backups  bool
	hardened bool // with PodDisruptionBudgets, topology spread, limits and NetworkPolicies
}

var environments = map[string]environment{
	platformv1.EnvironmentDevelopment: {replicas: 1, storage: "10Gi"},
	platformv1.EnvironmentStaging:     {replicas: 2, storage: "50Gi", backups: true},
	platformv1.EnvironmentProduction:  {replicas: 3, storage: "100Gi", backups: true, hardened: true},
}

// Versions of the database by its type, and the schedule and retention of backups, unless given.
const (
	postgreSQLVersion, mySQLVersion = "17", "8.4"
	schedule, retention             = "0 2 * * *", "30d"
)

// desiredDatabase returns the database that a platform requests, in its environment. byDefault is the
// destination of backups without one.
func desiredDatabase(p *platformv1.EcommercePlatform, byDefault datastore.DefaultDestination) tier.Server {
	spec := p.Spec
	env, given := environments[spec.Environment], spec.Database
	server := tier.Server{
		Type: given.Type, Version: cmp.Or(given.Version, postgreSQLVersion), Storage: cmp.Or(given.Storage, env.storage),
		StorageSource: "spec.database.storage", Replicas: ptr.Deref(given.Replicas, env.replicas), Backups: desiredBackups(p, byDefault),
		Resources: given.Resources,
	}
	if given.Storage == "" {
		server.StorageSource = "spec.environment " + spec.Environment
	}
	if given.Type == platformv1.DatabaseMySQL {
		server.Version, server.Replicas = cmp.Or(given.Version, mySQLVersion), 1 // The servers of a mysql are not replicated.
	}
	return server
}

// backupsOn reports whether backups are requested, with or without a destination.
func backupsOn(spec platformv1.EcommercePlatformSpec) bool {
	if given := spec.Database.Backup; given != nil && given.Enabled != nil {
		return *given.Enabled
	}
	return environments[spec.Environment].backups
}

// desiredBackups returns the requested backups; nil if they are off. A PostgreSQL has the operator's
// default destination itself, so that its spec does not change with the operator.
func desiredBackups(p *platformv1.EcommercePlatform, byDefault datastore.DefaultDestination) *tier.Backups {
	if !backupsOn(p.Spec) {
		return nil
	}
	given := ptr.Deref(p.Spec.Database.Backup, platformv1.PlatformBackup{})
	destination := byDefault.Or(given.Destination, p.Namespace)
	hasDestination := destination != nil
	if p.Spec.Database.Type != platformv1.DatabaseMySQL {
		destination = given.Destination
	}
	return &tier.Backups{
		Schedule: cmp.Or(given.Schedule, schedule), Retention: cmp.Or(given.Retention, retention),
		HasDestination: hasDestination, Destination: destination, ServiceAccountName: given.ServiceAccountName, Volume: given.Volume, Run: given.Run,
	}
}
