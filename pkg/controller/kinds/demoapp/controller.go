// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kinds/demoapp/audit"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	democlient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/pkg/registries"
)

// Name is the controller's name in logs and metrics.
const Name = "demoapp"

// fieldManager is the field manager of the statuses. The Helm engine has its own for the
// objects of releases.
const fieldManager = "demoapp-controller"

var demoAppKind = v1alpha1.SchemeGroupVersion.WithKind("DemoApp")

// Deps are the dependencies of the controller.
type Deps struct {
	// Apps writes DemoApps. AppInformers read them, keyed by the watched namespace.
	Apps         democlient.DemoAppsGetter
	AppInformers map[string]cache.SharedIndexInformer
	// Sources reads the Secrets and ConfigMaps that apiKeyFrom and valuesFrom name.
	Sources *values.Sources
	// Dependencies know the apps that others wait for.
	Dependencies *release.Dependencies
	// IngressClasses watches the metadata of all IngressClasses. HTTPRouteDefinition watches the
	// [served.Definition] named [HTTPRouteCRD]. Both start when a DemoApp first needs them.
	IngressClasses, HTTPRouteDefinition values.Watch
	// Audit stores the audit records of deleted DemoApps.
	Audit *audit.Trail

	Engine   release.Engine
	Chart    *chart.Chart
	Recorder events.EventRecorder
	Metrics  *controller.Metrics
	Clock    clock.WithTicker

	// ResyncPeriod is the time between two reconciles of an app without events, plus or
	// minus 10%.
	ResyncPeriod time.Duration
	// Licenses is asked before a change is rolled out; nil for no license server.
	Licenses release.Licenses
	// LicenseRetry is the delay before the server is asked again after a refusal, plus or
	// minus 10%.
	LicenseRetry time.Duration
	// RolloutLimits bound the rollout of a change to all apps, see [release.Rollout].
	RolloutLimits rollout.Limits
	// Registries are the allowed registries.
	Registries registries.List
	// Images say where the default image is pulled from.
	Images images.Table
	// Namespaces shows which namespaces are paused; nil if the operator may not watch them.
	Namespaces *controller.Namespaces
	// Workers is the number of apps reconciled in parallel.
	Workers int
	// Refuse returns why the objects of a namespace are not reconciled; "" if they are.
	Refuse func(namespace string) (why string)
	// Shards are the namespaces whose apps are reconciled; nil for all.
	Shards *controller.Shards
}

// loop returns the dependencies of the loop.
func (d Deps) loop() kind.Deps {
	return kind.Deps{
		Informers: d.AppInformers, Recorder: d.Recorder, Metrics: d.Metrics, Clock: d.Clock,
		ResyncPeriod: d.ResyncPeriod, Workers: d.Workers, Namespaces: d.Namespaces, Refuse: d.Refuse, Shards: d.Shards,
	}
}

// Controller reconciles DemoApps.
type Controller struct {
	*release.Loop[*v1alpha1.DemoApp, v1alpha1.DemoAppStatus]

	chart *chart.Chart
	audit *audit.Trail
	// deleted has the audit records of the apps in deletion, by name.
	deleted      controller.Memory[audit.Record]
	recorder     events.EventRecorder
	capabilities *capabilities
	reservations reservations
	registries   registries.List
	images       images.Table
}

// New connects the controller to its informers and to the engine. It starts nothing.
func New(deps Deps) (*Controller, error) {
	c := &Controller{
		chart: deps.Chart, audit: deps.Audit, recorder: deps.Recorder,
		registries: deps.Registries, images: deps.Images,
	}
	var err error
	if c.Loop, err = c.newLoop(deps); err != nil {
		return nil, err
	}
	if err := c.watch(deps); err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	c.Await(deps.Audit.Synced()...)
	return c, nil
}

// newLoop returns the loop of the kind. Its functions use fields that New sets later.
// They are not called before Run.
func (c *Controller) newLoop(deps Deps) (*release.Loop[*v1alpha1.DemoApp, v1alpha1.DemoAppStatus], error) {
	return release.NewLoop(kind.Definition[*v1alpha1.DemoApp, v1alpha1.DemoAppStatus]{
		Name: Name, GroupVersionKind: demoAppKind, FieldManager: fieldManager,
		Client:    func(namespace string) controller.Patcher[*v1alpha1.DemoApp] { return deps.Apps.DemoApps(namespace) },
		Status:    func(app *v1alpha1.DemoApp) *v1alpha1.DemoAppStatus { return &app.Status },
		Finalizer: v1alpha1.Finalizer, Finalize: c.finalize, LetGo: c.letGo, Finalized: clearStatus,
		Events: transitions,
		Gates:  measuredGates(),
		Forget: c.forget,
	}, deps.loop(), deps.Engine, binding{c}, release.Options[*v1alpha1.DemoApp]{
		Rollout: release.Rollout{Chart: deps.Chart, Limits: deps.RolloutLimits},
		Sources: sources(deps.Sources),
		WaitFor: waitFor, Dependencies: deps.Dependencies,
		License: release.License[*v1alpha1.DemoApp]{
			Server: deps.Licenses, Retry: deps.LicenseRetry,
			Image: func(app *v1alpha1.DemoApp) string { return imageOf(app.Spec, deps.Images) },
		},
		Secrets: func(app *v1alpha1.DemoApp) []string { return []string{app.Spec.APIKey} },
	})
}

// apiKeyFrom is the field that names the Secret of the API key. Its value has the limits of apiKey in the
// API, in characters, which the API server cannot check.
const (
	apiKeyFrom   = "apiKeyFrom"
	minKeyLength = 8
	maxKeyLength = 1024
)

// sources are the ConfigMaps and Secrets that an app names.
func sources(reader *values.Sources) release.Sources[*v1alpha1.DemoApp] {
	return release.Sources[*v1alpha1.DemoApp]{
		Reader: reader,
		Keys: func(app *v1alpha1.DemoApp) []release.SecretKey {
			return []release.SecretKey{{Field: apiKeyFrom, From: app.Spec.APIKeyFrom, MinLength: minKeyLength, MaxLength: maxKeyLength}}
		},
		ValuesFrom: func(app *v1alpha1.DemoApp) ([]releasev1alpha1.ValuesReference, *runtime.RawExtension) {
			return app.Spec.ValuesFrom, app.Spec.Values
		},
	}
}

// waitFor is the app that an app waits for.
func waitFor(app *v1alpha1.DemoApp) []release.Dependency {
	if app.Spec.WaitFor == "" {
		return nil
	}
	return []release.Dependency{{Kind: demoAppKind, Name: cache.NewObjectName(app.Namespace, app.Spec.WaitFor)}}
}

// forget removes the state of a deleted app.
func (c *Controller) forget(key cache.ObjectName) {
	c.releaseClaims(key)
	c.deleted.Forget(key)
	c.capabilities.forget(key)
}

// watch adds the handlers for all objects that apps depend on.
func (c *Controller) watch(deps Deps) error {
	for _, informer := range deps.AppInformers {
		if err := c.watchApps(informer); err != nil {
			return err
		}
	}
	return c.watchCapabilities(deps.IngressClasses, deps.HTTPRouteDefinition)
}

func (c *Controller) watchApps(informer cache.SharedIndexInformer) error {
	indexers := cache.Indexers{byCapability: capabilityIndex}
	if err := errors.Join(informer.AddIndexers(indexers), hosts.AddIndex(informer), nodePorts.AddIndex(informer)); err != nil {
		return fmt.Errorf("index DemoApps: %w", err)
	}
	rivals, err := controller.AddHandler("rivals of demoapps", informer, controller.MapHandler(c.Queue(), c.rivals, claimsChanged))
	c.Await(rivals)
	return err
}
