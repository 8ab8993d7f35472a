// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/audit"
	"github.com/example/demoapp-controller/pkg/controller/registries"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	democlient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
)

// Name is the controller's name in logs and metrics.
const Name = "demoapp"

// fieldManager owns the statuses that the controller writes. The objects of
// releases are the Helm engine's.
const fieldManager = "demoapp-controller"

// Engine is what the controller needs of the Helm engine.
type Engine interface {
	release.Observer
	Execute(ctx context.Context, wanted helm.Release, decision helm.Decision, baseline helm.Baseline) (*helm.Deployed, error)
	Explain(ctx context.Context, release cache.ObjectName, baseline helm.Baseline, drifts []helm.Drift) ([]helm.Explanation, error)
	Uninstall(ctx context.Context, release helm.Release, baseline helm.Baseline) error
	MarkFailed(ctx context.Context, release helm.Release, baseline helm.Baseline, revision int, description string) error
	MarkDeployed(ctx context.Context, release helm.Release, baseline helm.Baseline, revision int, description string) error
	InTheWay(ctx context.Context, object helm.ObjectReference) (string, error)
	Forget(release cache.ObjectName)
	HasSynced() bool
	Subscribe(func(release cache.ObjectName, change helm.Change))
}

// Watch is an informer that runs from when it is first needed.
type Watch interface {
	Informer() cache.SharedIndexInformer
	// Need is nil when the informer holds what there is. Otherwise it is a
	// *controller.UnfilledError, and the key is queued when that changes.
	Need(key cache.ObjectName, queue controller.Enqueuer) error
}

// Deps are what the controller is built from.
type Deps struct {
	// Apps writes DemoApps; AppInformers read them, keyed by the namespace that
	// each watches.
	Apps         democlient.DemoAppsGetter
	AppInformers map[string]cache.SharedIndexInformer
	// Secrets reads the ones that apiKeyFrom and valuesFrom name; SecretInformers
	// watch the metadata of all Secrets, keyed like AppInformers.
	Secrets         corev1client.SecretsGetter
	SecretInformers map[string]cache.SharedIndexInformer
	// ConfigMapWatches watch the metadata of all ConfigMaps, keyed like
	// AppInformers, from when a DemoApp first names one in valuesFrom.
	ConfigMapWatches map[string]Watch
	// IngressClasses watches the metadata of all IngressClasses, and
	// HTTPRouteDefinition the CustomResourceDefinition [HTTPRouteCRD] as an
	// unstructured object, from when a DemoApp first needs to know of them.
	IngressClasses, HTTPRouteDefinition Watch
	// ConfigMaps reads those.
	ConfigMaps corev1client.ConfigMapsGetter
	// Audit keeps the records of deleted DemoApps.
	Audit *audit.Trail

	Engine   Engine
	Chart    *helm.Chart
	Recorder events.EventRecorder
	Metrics  *controller.Metrics
	Clock    clock.WithTicker

	// ResyncPeriod is the time after which an app is looked at although nothing
	// happened, give or take a tenth.
	ResyncPeriod time.Duration
	// Licenses is asked before something is rolled out; nil for no license server.
	Licenses Licenses
	// LicenseRetry is when it is asked again after it did not agree, give or take a
	// tenth.
	LicenseRetry time.Duration
	// RolloutLimits bound the rollout of a newer chart.
	RolloutLimits rollout.Limits
	// Registries are where images may come from.
	Registries registries.List
	// Workers is how many apps are worked on at once.
	Workers int
}

// Controller keeps DemoApps.
type Controller struct {
	queue  *controller.Controller
	synced []controller.NamedSync

	apps   democlient.DemoAppsGetter
	cached controller.Scoped[*v1alpha1.DemoApp]
	latest controller.Latest[*v1alpha1.DemoApp]
	// unwritten are statuses that are not worth a write of their own yet.
	unwritten    unwritten
	reservations reservations
	refusals     refusals
	ignored      ignoredRequests
	// explanations are of drift that is left as it is.
	explanations explanations
	sources      *sources
	capabilities *capabilities
	audit        *audit.Trail
	engine       Engine
	chart        *helm.Chart
	gates        []gate
	recorder     events.EventRecorder
	clock        clock.PassiveClock
	resync       time.Duration

	licenses     Licenses
	licenseRetry time.Duration
	registries   registries.List

	// rollouts is who waits for a newer chart, which recall fills once.
	rollouts      *rollout.Queue
	rolloutLimits rollout.Limits
	recall        sync.Once

	// inputVersions are what the statuses say of the apps' inputs.
	inputVersions inputVersions

	// valueNames are the chart's own words for values, which are no secrets.
	valueNames map[string]bool
}

// New wires the controller to its informers and to the engine. It starts
// nothing.
func New(deps Deps) (*Controller, error) {
	c := &Controller{
		apps:     deps.Apps,
		cached:   controller.Scoped[*v1alpha1.DemoApp]{},
		sources:  newSources(deps.Secrets, deps.ConfigMaps),
		audit:    deps.Audit,
		engine:   deps.Engine,
		chart:    deps.Chart,
		recorder: deps.Recorder,
		clock:    deps.Clock,
		resync:   deps.ResyncPeriod,

		licenses: deps.Licenses, licenseRetry: deps.LicenseRetry, registries: deps.Registries,

		rolloutLimits: deps.RolloutLimits,
	}
	c.valueNames = deps.Chart.ValueNames()
	c.rollouts = newRollouts(deps.RolloutLimits, func() *controller.Controller { return c.queue })
	c.gates = []gate{
		c.holdWhileSuspended,
		c.holdUntilWindow,
		c.validate,
		holdUnknownExposure,
		c.askLicense,
		c.holdForRollout, // Stays the last one: who is held by another takes no turn.
	}
	c.queue = controller.New(controller.ReconcilerFunc(c.Reconcile), controller.Options{
		Name: Name, Workers: deps.Workers, Clock: deps.Clock, Metrics: deps.Metrics,
	})
	c.sources.queue = c.queue
	for namespace, informer := range deps.AppInformers {
		if err := c.watchApps(namespace, informer); err != nil {
			return nil, fmt.Errorf("%s: %w", Name, err)
		}
	}
	for namespace, informer := range deps.SecretInformers {
		if err := c.watchSecrets(namespace, informer); err != nil {
			return nil, fmt.Errorf("%s: %w", Name, err)
		}
	}
	for namespace, watch := range deps.ConfigMapWatches {
		if err := c.watchConfigMaps(namespace, watch); err != nil {
			return nil, fmt.Errorf("%s: %w", Name, err)
		}
	}
	if err := c.watchCapabilities(deps.IngressClasses, deps.HTTPRouteDefinition); err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	c.synced = append(c.synced, deps.Audit.Synced()...)
	c.synced = append(c.synced, controller.NamedSync{Name: "release records", HasSynced: deps.Engine.HasSynced})
	deps.Engine.Subscribe(func(release cache.ObjectName, change helm.Change) {
		// Most releases of a cluster may be those of others. An app that is not in
		// the cache yet brings its own reason.
		if _, ours := c.cached.Get(release); ours {
			c.queue.Enqueue(release, reasonOf(change))
		}
	})
	return c, nil
}

// Run works until stop ends and what was in flight is finished, or until lead
// ends.
func (c *Controller) Run(stop, lead context.Context) error {
	return c.queue.Run(stop, lead, c.synced...)
}

// Synced are the caches that the controller works from.
func (c *Controller) Synced() []controller.NamedSync { return c.synced }

func (c *Controller) watchApps(namespace string, informer cache.SharedIndexInformer) error {
	if err := informer.AddIndexers(cache.Indexers{
		byDependency: dependencyIndex, bySource: sourceIndex, byClaim: claimIndex, byCapability: capabilityIndex,
	}); err != nil {
		return fmt.Errorf("index DemoApps: %w", err)
	}
	c.cached[namespace] = informer.GetIndexer()
	own, err1 := controller.AddHandler("demoapps", informer, controller.SpecHandler[*v1alpha1.DemoApp](c.queue,
		releasev1alpha1.AnnotationRequestedAt, releasev1alpha1.AnnotationForceAt, releasev1alpha1.AnnotationAdoptRelease))
	dependants, err2 := controller.AddHandler("dependants of demoapps", informer,
		controller.MapHandler(c.queue, c.dependants, dependencyChanged))
	rivals, err3 := controller.AddHandler("rivals of demoapps", informer, controller.MapHandler(c.queue, c.rivals, claimsChanged))
	c.synced = append(c.synced, own, dependants, rivals)
	return errors.Join(err1, err2, err3)
}

func (c *Controller) watchSecrets(namespace string, informer cache.SharedIndexInformer) error {
	c.sources.metadata[releasev1alpha1.ValuesFromSecret][namespace] = informer.GetIndexer()
	synced, err := controller.AddHandler("secrets", informer,
		controller.MapHandler(c.queue, c.readersOf(releasev1alpha1.ValuesFromSecret), controller.Always[*metav1.PartialObjectMetadata](controller.SpecChange)))
	c.synced = append(c.synced, synced)
	return err
}

// watchConfigMaps does not add to what has to be synced before the controller
// works: whoever needs the watch waits for it, in the queue.
func (c *Controller) watchConfigMaps(namespace string, watch Watch) error {
	c.sources.metadata[releasev1alpha1.ValuesFromConfigMap][namespace] = watch.Informer().GetIndexer()
	c.sources.needs[releasev1alpha1.ValuesFromConfigMap][namespace] = watch
	_, err := controller.AddHandler("configmaps", watch.Informer(), controller.MapHandler(c.queue,
		c.readersOf(releasev1alpha1.ValuesFromConfigMap), controller.Always[*metav1.PartialObjectMetadata](controller.SpecChange)))
	return err
}

// reasonOf says in the queue's words what the engine tells.
func reasonOf(change helm.Change) controller.Reason {
	if change == helm.HealthChanged {
		return controller.HealthChange
	}
	return controller.Drift
}
