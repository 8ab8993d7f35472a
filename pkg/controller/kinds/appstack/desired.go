// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package appstack

import (
	"k8s.io/utils/ptr"

	appv1 "github.com/example/demoapp-controller/pkg/apis/app/v1"
	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/tier"
	"github.com/example/demoapp-controller/pkg/images"
)

// components returns the components of an AppStack in the order of their start. The replicas
// of the PostgreSQL are left to users. restricted says that the namespace enforces the restricted Pod Security
// profile.
func components(stack *appv1.AppStack, pull images.Table, domain naming.Domain, restricted bool) []component.Component {
	given := stack.Spec
	app := tier.Application{
		Namespace: stack.Namespace, Name: stack.Name, Images: pull, Domain: domain,
		Labels: func(component string) map[string]string {
			return map[string]string{appv1.LabelStack: stack.Name, appv1.LabelComponent: component}
		},
		Database: tier.Server{
			Type: backupv1.SourcePostgreSQL, Version: given.Database.Version, Storage: given.Database.Storage, StorageSource: "spec.database.storage",
			Resources: given.Database.Resources,
		},
		Backend: workloadOf(given.Backend), Frontend: workloadOf(given.Frontend), Restricted: restricted,
	}
	if ptr.Deref(given.Cache.Enabled, true) {
		app.Cache = &tier.Workload{Image: given.Cache.Image, Replicas: ptr.Deref(given.Cache.Replicas, 1), Port: tier.CachePort, Resources: given.Cache.Resources}
	}
	return app.Tiers()
}

func workloadOf(given appv1.AppStackComponent) tier.Workload {
	return tier.Workload{
		Image: given.Image, Replicas: ptr.Deref(given.Replicas, 1), Port: given.Port, Resources: given.Resources,
		User: given.SecurityContext,
	}
}
