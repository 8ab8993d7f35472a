// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/served"
)

// HTTPRouteCRD is the name of the CustomResourceDefinition of HTTPRoute in the Gateway
// API.
const HTTPRouteCRD = "httproutes.gateway.networking.k8s.io"

// httpRouteVersion is the API version that the chart renders.
const httpRouteVersion = "v1"

// byCapability indexes DemoApps by the capabilities that they need.
const byCapability = "capabilities"

// httpRoutes is the index value of the Gateway API. ingressClass returns the index value of an
// IngressClass.
const httpRoutes = "HTTPRoute"

func ingressClass(name string) string { return "IngressClass/" + name }

func capabilityIndex(object any) ([]string, error) {
	app, ok := object.(*v1alpha1.DemoApp)
	if !ok || app.Spec.Ingress == nil {
		return nil, nil
	}
	var needed []string
	if name := app.Spec.Ingress.ClassName; name != "" {
		needed = append(needed, ingressClass(name))
	}
	if app.Spec.Ingress.Gateway != nil {
		needed = append(needed, httpRoutes)
	}
	return needed, nil
}

// capabilities knows which optional kinds and classes the cluster supports. Their watches
// start when an app first needs them.
type capabilities struct {
	queue                controller.Enqueuer
	classWatch, crdWatch values.Watch
	classes              controller.Scoped[*metav1.PartialObjectMetadata]
	crds                 controller.Scoped[*served.Definition]
	// classAbsent and routesAbsent have the time since when the IngressClass of an app, or the version
	// of HTTPRoute, is absent. If a new process does not know it, the grace period begins again.
	classAbsent, routesAbsent controller.Memory[time.Time]
}

// forget removes the state of a deleted app.
func (c *capabilities) forget(app cache.ObjectName) {
	c.classAbsent.Forget(app)
	c.routesAbsent.Forget(app)
}

// failureOf returns why an informer cannot be synced. It returns nil while the informer
// syncs, and for all other errors.
func failureOf(err error) error {
	var unfilled *controller.UnfilledError
	if errors.As(err, &unfilled) {
		return unfilled.Failure
	}
	return nil
}

// hasClass reports whether the IngressClass exists. The error wraps a
// *controller.UnfilledError if that is not known yet.
func (c *capabilities) hasClass(app cache.ObjectName, name string) (bool, error) {
	if err := c.classWatch.Need(app, c.queue); err != nil {
		return false, fmt.Errorf("IngressClasses cannot be watched: %w", err)
	}
	_, ok := c.classes.Get(cache.ObjectName{Name: name})
	return ok, nil
}

// hasHTTPRoutes reports whether the API server serves the kind HTTPRoute. gone says that the kind
// does not exist or is being deleted, with all its objects. For the error, see hasClass.
func (c *capabilities) hasHTTPRoutes(app cache.ObjectName) (has, gone bool, err error) {
	if err := c.crdWatch.Need(app, c.queue); err != nil {
		return false, false, fmt.Errorf("CustomResourceDefinition %s cannot be watched: %w", HTTPRouteCRD, err)
	}
	crd, ok := c.crds.Get(cache.ObjectName{Name: HTTPRouteCRD})
	if !ok {
		return false, true, nil
	}
	return crd.Serves(httpRouteVersion), crd.DeletionTimestamp != nil, nil
}

// watchCapabilities enqueues the apps that depend on a capability when it changes. The
// controller starts before these watches are synced, as with the watches of ConfigMaps.
func (c *Controller) watchCapabilities(classes, crds values.Watch) error {
	c.capabilities = &capabilities{
		queue: c.Queue(), classWatch: classes, crdWatch: crds,
		classes: controller.Scoped[*metav1.PartialObjectMetadata]{metav1.NamespaceAll: classes.Informer().GetIndexer()},
		crds:    controller.Scoped[*served.Definition]{metav1.NamespaceAll: crds.Informer().GetIndexer()},
	}
	_, err := controller.AddHandler("ingressclasses", classes.Informer(), controller.MapHandler(c.Queue(),
		func(class *metav1.PartialObjectMetadata) []cache.ObjectName {
			return c.dependOn(ingressClass(class.Name))
		},
		func(before, after *metav1.PartialObjectMetadata) controller.Reason {
			if before != nil && after != nil {
				return 0
			}
			return controller.SpecChange
		}))
	if err != nil {
		return err
	}
	_, err = controller.AddHandler("customresourcedefinitions", crds.Informer(), controller.MapHandler(c.Queue(),
		func(*served.Definition) []cache.ObjectName { return c.dependOn(httpRoutes) },
		func(before, after *served.Definition) controller.Reason {
			if before.Serves(httpRouteVersion) == after.Serves(httpRouteVersion) {
				return 0
			}
			return controller.SpecChange
		}))
	return err
}

// dependOn returns the apps that need a capability.
func (c *Controller) dependOn(capability string) []cache.ObjectName {
	var keys []cache.ObjectName
	for namespace := range c.Cached() {
		for _, app := range c.Cached().ByIndex(namespace, byCapability, capability) {
			keys = append(keys, cache.MetaObjectToName(app))
		}
	}
	return keys
}
