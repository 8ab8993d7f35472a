// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/served"
)

// maxKinds bounds the kinds that the objects of one namespace wait for, apart from the kinds that
// have a controller in the process. Each kind is watched.
const maxKinds = 8

// firstList is how long a pass waits for the first list of a kind before the status reports the wait.
const firstList = 10 * time.Second

// Dependency is an object that another one waits for. It has to have the condition Ready or Deployed.
type Dependency struct {
	Kind schema.GroupVersionKind
	Name cache.ObjectName
}

// DependenciesOf returns the dependencies that an object in a namespace names.
func DependenciesOf(namespace string, references []releasev1alpha1.DependencyReference) []Dependency {
	var dependencies []Dependency
	for _, r := range references {
		in := namespace
		if r.Namespace != "" {
			in = r.Namespace
		}
		dependencies = append(dependencies, Dependency{
			Kind: schema.FromAPIVersionAndKind(r.APIVersion, r.Kind), Name: cache.NewObjectName(in, r.Name),
		})
	}
	return dependencies
}

// key identifies a dependency. The API version is how to ask for it, and no part of its identity.
func (d Dependency) key() dependencyKey { return dependencyKey{d.Kind.GroupKind(), d.Name} }

type dependencyKey struct {
	kind schema.GroupKind
	name cache.ObjectName
}

// DependenciesConfig has what [Dependencies] watch objects of any kind with.
type DependenciesConfig struct {
	Client dynamic.Interface
	Kinds  served.Kinds
	Clock  clock.WithTicker
	// Namespaces are the watched namespaces; empty means all.
	Namespaces []string
	// Shared are the namespaces whose objects may be dependencies of objects in other namespaces.
	// By default, an object waits for objects of its own namespace only.
	Shared []string
	// OnWatchError is called for the errors of lists and watches of a resource. Optional.
	OnWatchError func(resource string, err error)
}

// Dependencies know the state of objects that other objects wait for. All kinds of a process share one.
// The kinds with a [Loop] report their own objects. Other kinds are watched while an object waits for
// one of their objects. The zero value knows only the former.
type Dependencies struct {
	config DependenciesConfig
	runner *served.Runner

	mu sync.Mutex
	// loops are the kinds with a loop.
	loops map[schema.GroupKind]loopKind
	// waits are the dependencies of each object, as of its last pass, and waiting the reverse.
	waits   map[values.Owner][]Dependency
	waiting map[dependencyKey]sets.Set[values.Owner]
	// needed counts by namespace and kind the dependencies of other kinds than those with a loop, and watched are these kinds.
	needed  map[string]map[schema.GroupVersionKind]int
	watched map[schema.GroupKind]*watchedKind
	// started counts the watches.
	started int
}

// loopKind is a kind with a loop.
type loopKind struct {
	readiness func(cache.ObjectName) readiness
	hasSynced func() bool
}

// NewDependencies returns dependencies that watch objects of any kind while Run runs.
func NewDependencies(config DependenciesConfig) *Dependencies {
	follower := served.New(served.Config{Kinds: config.Kinds, Clock: config.Clock, Waiting: func(string, bool) {}})
	return &Dependencies{config: config, runner: served.NewRunner(follower)}
}

// Run watches the dependencies of waiting objects until ctx ends.
func (d *Dependencies) Run(ctx context.Context) error {
	return d.runner.Run(ctx, context.WithoutCancel(ctx)) // Only the end of lead would be an error.
}

// register adds a kind with a loop.
func (d *Dependencies) register(kind schema.GroupKind, loop loopKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.loops == nil {
		d.loops = map[schema.GroupKind]loopKind{}
	}
	d.loops[kind] = loop
	d.retarget()
}

// unregister removes a kind whose loop has ended. The objects that others wait for are watched instead.
func (d *Dependencies) unregister(kind schema.GroupKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.loops, kind)
	d.retarget()
}

// use records the objects that an owner waits for.
func (d *Dependencies) use(owner values.Owner, dependencies []Dependency) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.waits[owner]
	if slices.Equal(before, dependencies) {
		return
	}
	if d.waits == nil {
		d.waits, d.waiting = map[values.Owner][]Dependency{}, map[dependencyKey]sets.Set[values.Owner]{}
		d.needed = map[string]map[schema.GroupVersionKind]int{}
	}
	d.waits[owner] = dependencies
	if len(dependencies) == 0 {
		delete(d.waits, owner)
	}
	for _, dependency := range before {
		d.count(owner.Name.Namespace, dependency.Kind, -1)
		if owners := d.waiting[dependency.key()]; owners.Delete(owner).Len() == 0 {
			delete(d.waiting, dependency.key())
		}
	}
	for _, dependency := range dependencies {
		d.count(owner.Name.Namespace, dependency.Kind, 1)
		if d.waiting[dependency.key()] == nil {
			d.waiting[dependency.key()] = sets.New[values.Owner]()
		}
		d.waiting[dependency.key()].Insert(owner)
	}
	d.retarget()
}

// count counts a dependency of a namespace. The caller holds mu.
func (d *Dependencies) count(namespace string, kind schema.GroupVersionKind, change int) {
	if d.needed[namespace] == nil {
		d.needed[namespace] = map[schema.GroupVersionKind]int{}
	}
	if d.needed[namespace][kind] += change; d.needed[namespace][kind] == 0 {
		delete(d.needed[namespace], kind)
	}
	if len(d.needed[namespace]) == 0 {
		delete(d.needed, namespace)
	}
}

// retarget watches the kinds that objects wait for and that have no loop. The caller holds mu.
func (d *Dependencies) retarget() {
	if d.runner == nil {
		return
	}
	next, changed := map[schema.GroupKind]*watchedKind{}, false
	for _, kinds := range d.needed {
		added := 0
		for kind := range kinds {
			group := kind.GroupKind()
			if _, ok := d.loops[group]; ok || next[group] != nil {
				continue
			}
			if next[group] = d.watched[group]; next[group] != nil {
				continue
			}
			if len(kinds) > maxKinds && added+d.countWatched(kinds) >= maxKinds {
				delete(next, group)
				continue
			}
			d.started++
			added, changed = added+1, true
			next[group] = &watchedKind{Dependencies: d, kind: kind, number: d.started, began: d.config.Clock.Now()}
		}
	}
	if !changed && len(next) == len(d.watched) {
		return
	}
	d.watched = next
	targets := make([]served.Target, 0, len(next))
	for kind, watched := range next {
		targets = append(targets, served.Target{
			Name: "dependencies of kind " + kind.String(), Kind: watched.kind, Revision: strconv.Itoa(watched.number), Run: watched.run,
		})
	}
	d.runner.Update(targets)
}

// countWatched returns how many of the kinds are watched already. The caller holds mu.
func (d *Dependencies) countWatched(kinds map[schema.GroupVersionKind]int) (count int) {
	for kind := range kinds {
		if d.watched[kind.GroupKind()] != nil {
			count++
		}
	}
	return count
}

// refuse returns why an object must not wait for another one; "" if it may.
func (d *Dependencies) refuse(self, dependency Dependency) string {
	to := dependency.Name.Namespace
	if to == self.Name.Namespace || slices.Contains(d.config.Shared, to) {
		return ""
	}
	return "because the operator lets nothing outside that namespace wait for its objects"
}

// readiness returns how a dependency stands. The error says why that is not known; it is pending while a
// cache syncs.
func (d *Dependencies) readiness(self, dependency Dependency) (readiness, error) {
	found, err := d.known(self, dependency)
	if err == nil || d.config.Kinds == nil {
		return found, err
	}
	resource, discoverErr := d.config.Kinds.Resource(dependency.Kind)
	switch {
	case meta.IsNoMatchError(discoverErr):
		return found, errors.New("whose kind the API server does not serve")
	case discoverErr == nil && !resource.Namespaced:
		return found, errors.New("whose kind has no namespaces")
	default:
		return found, err
	}
}

// known returns how a dependency stands, as far as it is cached.
func (d *Dependencies) known(self, dependency Dependency) (readiness, error) {
	kind := dependency.Kind.GroupKind()
	d.mu.Lock()
	loop, hasLoop := d.loops[kind]
	watched := d.watched[kind]
	d.mu.Unlock()
	switch {
	case hasLoop && kind != self.Kind.GroupKind() && !loop.hasSynced():
		return readiness{}, &controller.UnfilledError{}
	case hasLoop:
		return loop.readiness(dependency.Name), nil
	case watched != nil:
		return watched.readiness(dependency.Name)
	case d.runner == nil:
		return readiness{}, errors.New("which this operator does not watch")
	default:
		return readiness{}, fmt.Errorf("because the objects of a namespace may wait for %d kinds", maxKinds)
	}
}

// dependants is the queue of an object of a kind: it enqueues the objects that wait for the object.
type dependants struct {
	dependencies *Dependencies
	kind         schema.GroupKind
}

// Enqueue implements controller.Enqueuer.
func (q dependants) Enqueue(object cache.ObjectName, why controller.Reason) {
	d := q.dependencies
	d.mu.Lock()
	owners := d.waiting[dependencyKey{q.kind, object}].UnsortedList()
	d.mu.Unlock()
	for _, owner := range owners {
		owner.Queue.Enqueue(owner.Name, why)
	}
}

// all enqueues all objects that wait for objects of the kind.
func (q dependants) all() {
	q.dependencies.mu.Lock()
	keys := slices.Collect(maps.Keys(q.dependencies.waiting))
	q.dependencies.mu.Unlock()
	for _, key := range keys {
		if key.kind == q.kind {
			q.Enqueue(key.name, controller.DependencyReady)
		}
	}
}

// watchedKind watches the objects of a kind without a loop.
type watchedKind struct {
	*Dependencies

	kind   schema.GroupVersionKind
	number int
	// began is when the first object waited for the kind.
	began time.Time

	mu     sync.Mutex
	cached controller.Scoped[*reduced]
	synced []cache.InformerSynced
	// failure is the last refusal of the API server, until a list succeeds.
	failure error
}

// run watches the objects until stop or lead ends.
func (w *watchedKind) run(stop, lead context.Context, resource served.Resource, synced func()) error {
	queue := dependants{w.Dependencies, w.kind.GroupKind()}
	if !resource.Namespaced {
		queue.all() // Their statuses say so.
		<-stop.Done()
		return nil
	}
	ctx, cancel := context.WithCancel(stop)
	defer cancel()
	defer context.AfterFunc(lead, cancel)()
	informers, err := w.informers(resource.GroupVersionResource, queue)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	cached, checks := controller.Scoped[*reduced]{}, []cache.InformerSynced{}
	for namespace, informer := range informers {
		cached[namespace], checks = informer.GetIndexer(), append(checks, informer.HasSynced)
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	w.set(cached, checks)
	defer w.set(nil, nil)
	if cache.WaitForCacheSync(ctx.Done(), checks...) {
		synced()
		queue.all()
	}
	<-ctx.Done()
	return nil
}

// informers returns the informers of the objects, by watched namespace.
func (w *watchedKind) informers(resource schema.GroupVersionResource, queue dependants) (map[string]cache.SharedIndexInformer, error) {
	namespaces := w.config.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	informers := map[string]cache.SharedIndexInformer{}
	for _, namespace := range namespaces {
		informer := dynamicinformer.NewFilteredDynamicInformer(w.config.Client, resource, namespace, 0, cache.Indexers{}, nil).Informer()
		_, err := controller.AddHandler("dependencies of kind "+w.kind.Kind, informer, controller.MapHandler(queue,
			func(object *reduced) []cache.ObjectName { return []cache.ObjectName{cache.MetaObjectToName(object)} },
			func(before, after *reduced) controller.Reason {
				if before != nil && after != nil && before.readiness.same(after.readiness) {
					return 0
				}
				return controller.DependencyReady
			}))
		err = errors.Join(err, informer.SetTransform(reduce),
			informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
				w.failed(resource.GroupResource().String(), err, queue)
				cache.DefaultWatchErrorHandler(ctx, reflector, err)
			}))
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", resource.GroupResource(), err)
		}
		informers[namespace] = informer
	}
	return informers, nil
}

func (w *watchedKind) set(cached controller.Scoped[*reduced], synced []cache.InformerSynced) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cached, w.synced, w.failure = cached, synced, nil
}

// failed records why the objects cannot be watched. The first failure enqueues the objects that wait.
func (w *watchedKind) failed(resource string, err error, queue dependants) {
	if w.config.OnWatchError != nil {
		w.config.OnWatchError(resource, err)
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return
	}
	w.mu.Lock()
	first := w.failure == nil
	w.failure = err
	w.mu.Unlock()
	if first {
		queue.all()
	}
}

// readiness returns how an object stands. The error is pending while the first list is in flight.
func (w *watchedKind) readiness(name cache.ObjectName) (readiness, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hasSynced := w.cached != nil && !slices.ContainsFunc(w.synced, func(synced cache.InformerSynced) bool { return !synced() })
	switch {
	case hasSynced:
		if object, ok := w.cached.Get(name); ok {
			return object.readiness, nil
		}
		return readiness{}, nil
	case w.failure != nil:
		return readiness{}, fmt.Errorf("which the operator cannot watch: %w", w.failure)
	case w.config.Clock.Since(w.began) < firstList:
		return readiness{}, &controller.UnfilledError{}
	default:
		return readiness{}, errors.New("which the operator begins to watch")
	}
}

// reduced is what the cache has of an object.
type reduced struct {
	metav1.ObjectMeta

	readiness readiness
}

// reduce drops all of an object but how it stands to its dependants.
func reduce(object any) (any, error) {
	whole, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	return &reduced{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: whole.GetNamespace(), Name: whole.GetName(), UID: whole.GetUID(), ResourceVersion: whole.GetResourceVersion(),
		},
		readiness: readinessOfAny(whole),
	}, nil
}

// readinessOfAny returns how an object of any kind stands. One with the condition Deployed is a release.
// Any other one must have the condition Ready of its current generation.
func readinessOfAny(object *unstructured.Unstructured) readiness {
	conditions := conditionsOf(object)
	waitForReady, _, _ := unstructured.NestedBool(object.Object, "spec", "waitForReady")
	if inRelease, _, _ := unstructured.NestedBool(object.Object, "release", "waitForReady"); inRelease {
		waitForReady = true
	}
	lastGood, _, _ := unstructured.NestedInt64(object.Object, "status", "lastGoodRevision")
	found := deployedReadiness(conditions, waitForReady, lastGood)
	if meta.FindStatusCondition(conditions, releasev1alpha1.ConditionDeployed) == nil {
		ready := meta.FindStatusCondition(conditions, apimeta.ConditionReady)
		observed, reported, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		if ready != nil && ready.ObservedGeneration > 0 {
			observed, reported = ready.ObservedGeneration, true
		}
		found.is, found.awaited = "ready", "to become ready"
		found.ready = ready != nil && ready.Status == metav1.ConditionTrue && (!reported || observed >= object.GetGeneration())
		if ready == nil {
			found.awaited = "to have the condition Ready or Deployed"
		}
	}
	found.deleting = object.GetDeletionTimestamp() != nil
	return found
}

// conditionsOf returns type, status, reason and generation of the conditions of an object.
func conditionsOf(object *unstructured.Unstructured) []metav1.Condition {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var conditions []metav1.Condition
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(name string) string { value, _, _ := unstructured.NestedString(fields, name); return value }
		generation, _, _ := unstructured.NestedInt64(fields, "observedGeneration")
		conditions = append(conditions, metav1.Condition{
			Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), ObservedGeneration: generation,
		})
	}
	return conditions
}
