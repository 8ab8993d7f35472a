// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
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
	// Secrets reads the Secrets that apiKeyFrom and valuesFrom name. SecretInformers
	// watch the metadata of all Secrets, keyed like AppInformers.
	Secrets         corev1client.SecretsGetter
	SecretInformers map[string]cache.SharedIndexInformer
	// ConfigMapWatches watch the metadata of all ConfigMaps, keyed like AppInformers.
	// They start when a DemoApp first names a ConfigMap in valuesFrom.
	ConfigMapWatches map[string]values.Watch
	// IngressClasses watches the metadata of all IngressClasses. HTTPRouteDefinition watches the
	// [served.Definition] named [HTTPRouteCRD]. Both start when a DemoApp first needs them.
	IngressClasses, HTTPRouteDefinition values.Watch
	// ConfigMaps reads the ConfigMaps that valuesFrom names.
	ConfigMaps corev1client.ConfigMapsGetter
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
	sources      *values.Sources
	capabilities *capabilities
	reservations reservations
	registries   registries.List
	images       images.Table
	// valueNames are the names of values that the chart itself uses. They are not secret.
	valueNames map[string]bool
}

// New connects the controller to its informers and to the engine. It starts nothing.
func New(deps Deps) (*Controller, error) {
	c := &Controller{
		chart: deps.Chart, audit: deps.Audit, recorder: deps.Recorder, valueNames: deps.Chart.ValueNames(),
		registries: deps.Registries, images: deps.Images,
	}
	var err error
	if c.Loop, err = c.newLoop(deps); err != nil {
		return nil, err
	}
	c.sources = values.NewSources(deps.Secrets, deps.ConfigMaps, c.Queue())
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
		Redact: c.redact,
		Gates:  measuredGates(),
		Forget: c.forget,
	}, deps.loop(), deps.Engine, binding{c}, release.Options[*v1alpha1.DemoApp]{
		Rollout: release.Rollout{Chart: deps.Chart, Limits: deps.RolloutLimits},
		License: release.License[*v1alpha1.DemoApp]{
			Server: deps.Licenses, Retry: deps.LicenseRetry,
			Image: func(app *v1alpha1.DemoApp) string { return imageOf(app.Spec, deps.Images) },
		},
		Secrets: func(app *v1alpha1.DemoApp) []string { return []string{app.Spec.APIKey} },
	})
}

// forget removes the state of a deleted app.
func (c *Controller) forget(key cache.ObjectName) {
	c.sources.Use(key, nil)
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
	for namespace, informer := range deps.SecretInformers {
		c.sources.Watch(releasev1alpha1.ValuesFromSecret, namespace, informer.GetIndexer())
		synced, err := controller.AddHandler("secrets", informer, c.sourceHandler(releasev1alpha1.ValuesFromSecret))
		if err != nil {
			return err
		}
		c.Await(synced)
	}
	// The controller starts before the watches on demand are synced. An app that needs
	// one waits in the queue.
	for namespace, watch := range deps.ConfigMapWatches {
		c.sources.WatchOnDemand(releasev1alpha1.ValuesFromConfigMap, namespace, watch)
		if _, err := controller.AddHandler("configmaps", watch.Informer(), c.sourceHandler(releasev1alpha1.ValuesFromConfigMap)); err != nil {
			return err
		}
	}
	return c.watchCapabilities(deps.IngressClasses, deps.HTTPRouteDefinition)
}

func (c *Controller) sourceHandler(kind releasev1alpha1.ValuesKind) cache.TypedResourceEventHandler[*metav1.PartialObjectMetadata] {
	return controller.MapHandler(c.Queue(), c.readersOf(kind), controller.Always[*metav1.PartialObjectMetadata](controller.SpecChange))
}

func (c *Controller) watchApps(informer cache.SharedIndexInformer) error {
	indexers := cache.Indexers{byDependency: dependencyIndex, bySource: sourceIndex, byCapability: capabilityIndex}
	if err := errors.Join(informer.AddIndexers(indexers), hosts.AddIndex(informer), nodePorts.AddIndex(informer)); err != nil {
		return fmt.Errorf("index DemoApps: %w", err)
	}
	dependants, err1 := controller.AddHandler("dependants of demoapps", informer,
		controller.MapHandler(c.Queue(), c.dependants, dependencyChanged))
	rivals, err2 := controller.AddHandler("rivals of demoapps", informer, controller.MapHandler(c.Queue(), c.rivals, claimsChanged))
	c.Await(dependants, rivals)
	return errors.Join(err1, err2)
}
