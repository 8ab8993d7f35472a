// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/served"
	"github.com/example/demoapp-controller/pkg/shardcache"
)

// Controller is a controller of the process. It runs on the leader. When stop ends, Run must finish
// the work in flight; when lead ends, Run must stop at once. Run must return after all its
// goroutines have ended.
type Controller struct {
	Name string
	Run  func(stop, lead context.Context) error
}

// Parts are the parts that one kind adds to the process.
type Parts struct {
	// Services start in this order, before the controllers.
	Services []Service
	// Controllers run on the leader.
	Controllers []Controller
	// Synced are the caches that must sync before the process is ready.
	Synced []controller.NamedSync
	// Checks must pass while the process is ready.
	Checks []Check
}

// Check is a condition of the readiness of the process.
type Check struct {
	Name string
	// Ready returns why the process is not ready. It is called for each request to /readyz.
	Ready func() error
}

// Environment is the argument of Kind.Build: the clients of the process and the shared informers.
// It collects the parts of the kind. Only Kind.Build uses it, and one Build runs at a time.
type Environment struct {
	Clients *Clients
	// Namespaces are the watched namespaces, sorted. If it is empty, all namespaces are watched.
	Namespaces []string
	// NamespaceMetadata shows which namespaces are paused or being deleted. It is nil if the
	// operator may not watch the metadata of all Namespaces.
	NamespaceMetadata *controller.Namespaces
	// Registry registers the metrics of kinds.
	Registry prometheus.Registerer
	// Metrics measure the controllers of the process.
	Metrics *controller.Metrics
	// Shards are the namespaces whose objects the process reconciles. It is nil unless --shards is
	// greater than 1.
	Shards *controller.Shards

	name      string
	stream    events.EventBroadcaster
	kinds     *kindMetrics
	lease     *coordinationv1.Lease
	report    *report
	informers map[informerKey]cache.SharedIndexInformer
	onDemand  map[informerKey]*controller.OnDemand
	parts     Parts
}

// informerKey identifies an informer of the process.
type informerKey struct{ name, namespace string }

func (k informerKey) String() string {
	if k.namespace == "" {
		return "informer of " + k.name
	}
	return "informer of " + k.name + " in " + k.namespace
}

// NewEnvironment returns an environment for Run and for tests of a Build. name is the name of the
// program. Events are sent to stream.
func NewEnvironment(name string, clients *Clients, namespaces []string, stream events.EventBroadcaster, registry prometheus.Registerer) *Environment {
	return &Environment{
		Clients: clients, Namespaces: namespaces, Registry: registry, Metrics: controller.NewMetrics(registry),
		name: name, stream: stream,
		informers: map[informerKey]cache.SharedIndexInformer{}, onDemand: map[informerKey]*controller.OnDemand{},
	}
}

// WatchedNamespaces returns the namespaces of the informers. If all namespaces are watched, it
// returns metav1.NamespaceAll.
func (e *Environment) WatchedNamespaces() []string {
	if len(e.Namespaces) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return e.Namespaces
}

// Name returns the name of the program.
func (e *Environment) Name() string { return e.name }

// Lease returns the Lease of the leader election, as the object of events about the process. It is
// nil in tests of a Build.
func (e *Environment) Lease() *coordinationv1.Lease { return e.lease }

// SetWaiting sets the gauge controller_kind_waiting of a kind. It is for kinds that follow
// their own CRDs, and have no Resources.
func (e *Environment) SetWaiting(kind string, waiting bool) {
	if e.kinds != nil {
		e.kinds.setWaiting(kind, waiting)
	}
}

// ReportKinds replaces the kinds that a registered kind reports on the Lease of the leader. It is
// for kinds that change while the process runs, and have no Resources. The next renewal of the Lease
// writes them.
func (e *Environment) ReportKinds(registered string, kinds []schema.GroupKind) {
	if e.report != nil {
		e.report.setKinds(registered, kinds)
	}
}

// Permitted waits until the role of the operator grants the rules of an installed kind. Meanwhile,
// the log and the metric controller_permission_missing name the permissions that the role lacks.
// Permitted returns an error if ctx ends, or if the API server refuses a question. It is for kinds
// that start while the process runs, and have no Resources.
func (e *Environment) Permitted(ctx context.Context, kind string, rules func(served.Snapshot) []Rule) error {
	metrics := e.kinds
	if metrics == nil {
		metrics = newKindMetrics()
	}
	return permitted(ctx, newQuestions(e.Clients).persistently(), e.WatchedNamespaces(), metrics, kind, rules)
}

// Recorder returns an event recorder for objects of the types in scheme.
func (e *Environment) Recorder(scheme *runtime.Scheme) events.EventRecorder {
	return e.stream.NewRecorder(scheme, e.name)
}

// Informer returns the informer with this name and namespace. The first call builds the informer
// and adds it as a service; later calls share it. The name must identify the contents: the
// resource, and a selector or the restriction to metadata if there is one, for example "Deployments
// with app=website". It is also the label "resource" of controller_watch_errors_total. Environment
// sets the informer's watch error handler.
func (e *Environment) Informer(
	name, namespace string, build func() (cache.SharedIndexInformer, error),
) (cache.SharedIndexInformer, error) {
	key := informerKey{name, namespace}
	if informer, ok := e.informers[key]; ok {
		return informer, nil
	}
	informer, err := build()
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(e.Metrics.WatchErrors(name))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	e.informers[key] = informer
	e.AddService(key.String(), func(ctx context.Context) error {
		informer.RunWithContext(ctx)
		return nil
	})
	return informer, nil
}

// Selection returns the shards whose objects the process caches; nil for all. Only informers of
// objects that passes in the same namespace read select them. Custom resources are cached in full,
// because some are compared across namespaces, such as the hosts of EcommercePlatforms.
func (e *Environment) Selection() *shardcache.Selection { return e.Shards.Selection() }

// Informers calls Informer for each watched namespace, and returns the informers by namespace.
func (e *Environment) Informers(
	name string, build func(namespace string) (cache.SharedIndexInformer, error),
) (map[string]cache.SharedIndexInformer, error) {
	informers := map[string]cache.SharedIndexInformer{}
	for _, namespace := range e.WatchedNamespaces() {
		informer, err := e.Informer(name, namespace, func() (cache.SharedIndexInformer, error) { return build(namespace) })
		if err != nil {
			return nil, err
		}
		informers[namespace] = informer
	}
	return informers, nil
}

// OnDemand is like Informer, for an informer that starts when it is first needed. Its name must
// differ from the names that are passed to Informer.
func (e *Environment) OnDemand(
	name, namespace string, build func() (cache.SharedIndexInformer, error),
) (*controller.OnDemand, error) {
	key := informerKey{name, namespace}
	if demand, ok := e.onDemand[key]; ok {
		return demand, nil
	}
	informer, err := build()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	demand, err := controller.NewOnDemand(informer, e.Metrics.OptionalWatchErrors(name))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	e.onDemand[key] = demand
	e.AddService(key.String(), func(ctx context.Context) error {
		demand.Run(ctx)
		return nil
	})
	return demand, nil
}

// AddService adds a service of the kind. See Service for the contract of run.
func (e *Environment) AddService(name string, run func(ctx context.Context) error) {
	e.parts.Services = append(e.parts.Services, Service{Name: name, Run: run})
}

// AddController adds a controller of the kind, and the caches that must sync before the process is
// ready. See Controller for the contract of run. With --shards, one replica runs the controller:
// the replica that holds shard 0.
func (e *Environment) AddController(name string, run func(stop, lead context.Context) error, synced ...controller.NamedSync) {
	e.AddSharded(name, e.Shards.First(run), synced...)
}

// AddSharded is AddController for a controller that all replicas run, because it works only on the
// namespaces that Shards holds.
func (e *Environment) AddSharded(name string, run func(stop, lead context.Context) error, synced ...controller.NamedSync) {
	e.parts.Controllers = append(e.parts.Controllers, Controller{Name: name, Run: run})
	e.parts.Synced = append(e.parts.Synced, synced...)
}

// AddCheck adds a condition of the readiness of the process.
func (e *Environment) AddCheck(name string, ready func() error) {
	e.parts.Checks = append(e.parts.Checks, Check{Name: name, Ready: ready})
}

// Build calls kind.Build and returns the parts that it added.
func (e *Environment) Build(kind Kind) (Parts, error) {
	err := kind.Build(e)
	parts := e.parts
	e.parts = Parts{}
	return parts, err
}
