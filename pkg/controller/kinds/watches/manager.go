// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	watchesv1alpha1 "github.com/example/demoapp-controller/pkg/apis/watches/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/served"
)

// Engine is the part of the Helm engine that a manager uses.
type Engine interface {
	release.Engine
	Kinds() *served.Cache
	Manifest(ctx context.Context, release helm.Release, baseline helm.Baseline, revision int) (string, error)
}

// Deps are the dependencies of a manager.
type Deps struct {
	Engine Engine
	// RESTConfig and HTTPClient are for the clients of the kinds.
	RESTConfig *rest.Config
	HTTPClient *http.Client
	Recorder   events.EventRecorder
	Metrics    *controller.Metrics
	Clock      clock.WithTicker
	// Sources read what valuesFrom of the object release names, and Dependencies know the objects of
	// its waitFor. Without them, custom resources cannot have them.
	Sources      *values.Sources
	Dependencies *release.Dependencies
	// Namespaces are the watched namespaces; empty means all.
	Namespaces []string
	// NamespaceMetadata shows which namespaces are paused; nil if the operator may not watch
	// them.
	NamespaceMetadata *controller.Namespaces
	// FieldManager is the field manager of the statuses: the name of the program.
	FieldManager string
	// ResyncPeriod and Workers are the defaults of kinds without their own.
	ResyncPeriod time.Duration
	Workers      int
	// Rollout bounds the rollouts of kinds without their own limits. For a limit of 0,
	// [rollout.DefaultLimits] has the value.
	Rollout rollout.Limits
	// Refuse returns why the custom resources of a namespace are not reconciled; "" if they are.
	// Optional.
	Refuse func(namespace string) (why string)
	// Shards are the namespaces whose custom resources are reconciled; nil for all.
	Shards *controller.Shards
	// Waiting is called when a kind starts or ends to wait until the API server serves it and the
	// operator may watch it. Optional.
	Waiting func(kind string, waiting bool)
	// Report is called with all kinds of the manager at its start and after each change. Optional.
	Report func(kinds []schema.GroupKind)
	// Unselected is called with the number of custom resources of a kind that its selector leaves out
	// although they have the finalizer of a release. Optional.
	Unselected func(kind string, count int)
	// Permitted is called before a kind starts, and returns when the operator has the permissions
	// that the kind needs. The context ends when the kind must not start any more. After an error,
	// Permitted is called again later. Optional.
	Permitted func(ctx context.Context, kind ReleaseKind) error

	metadata metadata.Interface
}

// Manager runs the controllers of several kinds. Each kind runs while the API server serves
// it. It is safe for concurrent use.
type Manager struct {
	deps   Deps
	runner *served.Runner

	mu      sync.Mutex
	running map[string]*kindController
}

// NewManager returns a manager of the kinds. It subscribes to the engine, so call it before
// the engine runs. It returns an error that names all invalid kinds.
func NewManager(deps Deps, kinds ...ReleaseKind) (*Manager, error) {
	if deps.Waiting == nil {
		deps.Waiting = func(string, bool) {}
	}
	if deps.Report == nil {
		deps.Report = func([]schema.GroupKind) {}
	}
	if deps.Unselected == nil {
		deps.Unselected = func(string, int) {}
	}
	var err error
	if deps.metadata, err = metadata.NewForConfigAndClient(deps.RESTConfig, deps.HTTPClient); err != nil {
		return nil, fmt.Errorf("client of metadata: %w", err)
	}
	m := &Manager{deps: deps, running: map[string]*kindController{}}
	m.runner = served.NewRunner(served.New(served.Config{Kinds: deps.Engine.Kinds(), Clock: deps.Clock, Waiting: deps.Waiting}))
	deps.Engine.Subscribe(m.releaseChanged)
	if err := m.Update(kinds...); err != nil {
		return nil, err
	}
	return m, nil
}

// Update replaces the kinds. A kind that is no longer among them stops, and its releases
// stay as they are. A kind whose Revision differs is restarted. It returns an error, and
// changes nothing, if a kind is invalid.
func (m *Manager) Update(kinds ...ReleaseKind) error {
	var errs []error
	seen, targets := map[schema.GroupKind]bool{}, make([]served.Target, 0, len(kinds))
	for _, k := range kinds {
		if err := k.validate(); err != nil {
			errs = append(errs, fmt.Errorf("kind %s: %w", k.Name(), err))
		}
		if k.ReleaseNamespace != "" && len(m.deps.Namespaces) > 0 && !slices.Contains(m.deps.Namespaces, k.ReleaseNamespace) {
			errs = append(errs, fmt.Errorf("kind %s: releaseNamespace %s is not among the watched namespaces: add it to --namespaces", k.Name(), k.ReleaseNamespace))
		}
		if seen[k.GroupVersionKind.GroupKind()] {
			errs = append(errs, fmt.Errorf("kind %s: is watched twice, maybe in two versions: a custom resource can have one release only", k.Name()))
		}
		targets = append(targets, m.target(m.withDefaults(k)))
		seen[k.GroupVersionKind.GroupKind()] = true
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	m.runner.Update(targets)
	m.deps.Report(slices.Collect(maps.Keys(seen)))
	return nil
}

func (m *Manager) withDefaults(k ReleaseKind) ReleaseKind {
	k.readsLabels = k.Translator != nil
	if k.Translator == nil {
		k.Translator = specValues
	}
	if k.ReleaseName == nil {
		k.ReleaseName = func(object *unstructured.Unstructured) (string, error) { return object.GetName(), nil }
	}
	if k.PauseAnnotation == "" {
		k.PauseAnnotation = watchesv1alpha1.AnnotationPaused
	}
	if k.Selector == nil {
		k.Selector = labels.Everything()
	}
	if k.Scope == "" {
		k.Scope = helm.ScopeCluster
	}
	if k.ReconcilePeriod <= 0 {
		k.ReconcilePeriod = m.deps.ResyncPeriod
	}
	k.Rollout = rollout.Limits{Active: cmp.Or(k.Rollout.Active, m.deps.Rollout.Active), Failed: cmp.Or(k.Rollout.Failed, m.deps.Rollout.Failed)}
	if k.MaxConcurrentReconciles <= 0 {
		k.MaxConcurrentReconciles = m.deps.Workers
	}
	return k
}

// releaseChanged notifies all kinds of a changed release.
func (m *Manager) releaseChanged(changed cache.ObjectName, change helm.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.running {
		c.changed(changed, change)
	}
}

// Run runs the kinds until stop or lead ends, see [controller.Controller.Run].
func (m *Manager) Run(stop, lead context.Context) error { return m.runner.Run(stop, lead) }

// target is the part of a kind that the follower runs.
func (m *Manager) target(k ReleaseKind) served.Target {
	return served.Target{
		Name: k.Name(), Kind: k.GroupVersionKind, Revision: k.Revision,
		Check: func(resource served.Resource) error {
			switch {
			case !resource.Namespaced && k.ReleaseNamespace == "":
				return fmt.Errorf("%s is cluster-scoped: set releaseNamespace, the namespace of its releases", k.Name())
			case resource.Namespaced && k.ReleaseNamespace != "":
				return fmt.Errorf("%s is namespaced: remove releaseNamespace, which is for cluster-scoped kinds", k.Name())
			default:
				return nil
			}
		},
		Run: func(stop, lead context.Context, resource served.Resource, synced func()) error {
			return m.runKind(stop, lead, k, resource, synced)
		},
	}
}

// permitted waits until the operator has the permissions of a kind, or until stop or lead ends.
func (m *Manager) permitted(stop, lead context.Context, k ReleaseKind) error {
	if m.deps.Permitted == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(stop)
	defer cancel()
	defer context.AfterFunc(lead, cancel)()
	if err := m.deps.Permitted(ctx, k); ctx.Err() == nil {
		return err
	}
	return nil // Nothing waits any more.
}

// runKind runs the controller of a kind until stop or lead ends.
func (m *Manager) runKind(stop, lead context.Context, k ReleaseKind, resource served.Resource, synced func()) error {
	if err := m.permitted(stop, lead, k); err != nil || stop.Err() != nil || lead.Err() != nil {
		return err
	}
	c, err := newKindController(k, resource, m.deps)
	if err != nil {
		return err
	}
	defer c.end(lead)
	// The informers outlive the passes in flight.
	watching, unwatch := context.WithCancel(context.WithoutCancel(lead))
	var running sync.WaitGroup
	defer running.Wait()
	defer unwatch()
	for _, informer := range c.informers {
		running.Go(func() { informer.RunWithContext(watching) })
	}
	running.Go(func() {
		if cache.WaitForCacheSync(watching.Done(), c.haveSynced()...) {
			synced()
		}
	})
	namespaces := m.deps.Namespaces
	if !resource.Namespaced {
		namespaces = nil
	}
	running.Go(func() { c.watchUnselected(watching, resource.GroupVersionResource, namespaces) })
	m.setRunning(k.Name(), c)
	defer m.setRunning(k.Name(), nil)
	return c.Run(stop, lead)
}

func (m *Manager) setRunning(name string, c *kindController) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c == nil {
		delete(m.running, name)
		return
	}
	m.running[name] = c
}
