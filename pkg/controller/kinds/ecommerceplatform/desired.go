// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ecommerceplatform

import (
	"cmp"

	"k8s.io/utils/ptr"

	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/tier"
)

// desired returns the components of a platform in the order of their start. No component waits for
// monitoring and backups. A platform that cannot have its host keeps the Ingress of its former
// host.
func desired(p *platformv1.EcommercePlatform, app tier.Application, hasHost bool) []component.Component {
	components := app.Tiers()
	if app.Monitored {
		components = append(components, app.Monitoring())
	}
	if given := p.Spec.Ingress; given != nil {
		entry := tier.Entry{Host: given.Host, ClassName: given.ClassName, TLSSecret: given.TLSSecret}
		switch held := p.Status.Host; {
		case hasHost:
			components = append(components, app.Ingress(entry))
		case held != "" && held != given.Host:
			entry.Host, entry.Retained = held, true
			components = append(components, app.Ingress(entry))
		}
	}
	if backups, ok := app.Backups(p.Status.Children); ok {
		components = append(components, backups)
	}
	return components
}

// application returns the application of a platform. destination is for backups without their own. See Restricted of [tier.Application].
func application(p *platformv1.EcommercePlatform, destination datastore.DefaultDestination, restricted bool) tier.Application {
	app := tier.Application{
		Namespace: p.Namespace, Name: p.Name, Database: desiredDatabase(p, destination),
		Hardened: environments[p.Spec.Environment].hardened, Restricted: restricted,
		Labels: func(component string) map[string]string {
			return map[string]string{platformv1.LabelPlatform: p.Name, platformv1.LabelComponent: component}
		},
		Backend: workloadOf(p.Spec.Backend), Frontend: workloadOf(p.Spec.Frontend), Monitored: ptr.Deref(p.Spec.Monitoring.Enabled, true),
	}
	if ptr.Deref(p.Spec.Cache.Enabled, true) {
		app.Cache = tier.BoundedCache(p.Spec.Cache.Resources)
	}
	return app
}

func workloadOf(c platformv1.PlatformComponent) tier.Workload {
	port := cmp.Or(c.Port, tier.DefaultPort(c.Image))
	return tier.Workload{Image: c.Image, Replicas: ptr.Deref(c.Replicas, 1), Port: port, Resources: c.Resources, User: c.SecurityContext}
}
