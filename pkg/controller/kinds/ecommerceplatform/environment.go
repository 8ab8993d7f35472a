// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ecommerceplatform

import (
	"cmp"

	"k8s.io/utils/ptr"

	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/tier"
)

// environment is what spec.environment decides unless the spec says otherwise.
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

// desiredDatabase returns the database that a spec requests, in its environment.
func desiredDatabase(spec platformv1.EcommercePlatformSpec) tier.Server {
	env, given := environments[spec.Environment], spec.Database
	server := tier.Server{
		Type: given.Type, Version: cmp.Or(given.Version, postgreSQLVersion), Storage: cmp.Or(given.Storage, env.storage),
		StorageSource: "spec.database.storage", Replicas: ptr.Deref(given.Replicas, env.replicas), Backups: desiredBackups(spec),
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

// desiredBackups returns the requested backups; nil if they are off, or have no destination.
func desiredBackups(spec platformv1.EcommercePlatformSpec) *tier.Backups {
	given := spec.Database.Backup
	if !backupsOn(spec) || given == nil || given.Destination == nil {
		return nil
	}
	return &tier.Backups{
		Schedule: cmp.Or(given.Schedule, schedule), Retention: cmp.Or(given.Retention, retention), Destination: *given.Destination,
		Volume: given.Volume, Run: given.Run,
	}
}
