// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
)

// maxDependencies bounds the objects that one object may wait for.
const maxDependencies = 16

// heldByDependency says how the status of an object shows that it waits for another one, for metrics.
// A refused dependency and a cycle need a user.
func heldByDependency() []kind.Gate {
	condition := releasev1alpha1.ConditionDependencyReady
	return []kind.Gate{
		{Name: "dependency", Condition: condition, Status: metav1.ConditionFalse, Reasons: []string{releasev1alpha1.ReasonWaiting}},
		{Name: "dependency", Condition: condition, Status: metav1.ConditionFalse, NeedsUser: true},
	}
}

// watchDependants registers the objects of the kind as dependencies of others. A change of an object that
// matters to its dependants enqueues them.
func (l *Loop[T, S]) watchDependants(informers map[string]cache.SharedIndexInformer) error {
	group := l.definition.GroupVersionKind.GroupKind()
	self := func(object T) []cache.ObjectName {
		return []cache.ObjectName{cache.MetaObjectToName(metav1.Object(object))}
	}
	changed := func(before, after T) controller.Reason {
		if l.readinessOf(before).same(l.readinessOf(after)) {
			return 0
		}
		return controller.DependencyReady
	}
	for _, informer := range informers {
		synced, err := controller.AddHandler("dependants of "+l.definition.Name, informer,
			controller.MapHandler(dependants{l.dependencies, group}, self, changed))
		if err != nil {
			return err
		}
		l.Await(synced)
	}
	l.dependencies.register(group, loopKind{readiness: l.readiness, hasSynced: func() bool {
		return !slices.ContainsFunc(slices.Collect(maps.Values(informers)), func(i cache.SharedIndexInformer) bool { return !i.HasSynced() })
	}})
	return nil
}

// readiness returns how an object of the kind stands to its dependants, as far as it is cached.
func (l *Loop[T, S]) readiness(key cache.ObjectName) readiness {
	object, _ := l.Cached().Get(key)
	return l.readinessOf(object)
}

// readinessOf returns how an object stands to its dependants; of none, that it does not exist.
func (l *Loop[T, S]) readinessOf(object T) readiness {
	var none T
	if object == none {
		return readiness{}
	}
	s := l.statusOf(object)
	_, policy := l.binding.Release(object)
	found := deployedReadiness(s.Conditions, policy.WaitForReady, s.LastGoodRevision)
	found.deleting = object.GetDeletionTimestamp() != nil
	found.waitsFor = l.waitsFor(object)
	return found
}

// waitsFor returns the objects that an object waits for.
func (l *Loop[T, S]) waitsFor(object T) []Dependency {
	if l.options.WaitFor == nil {
		return nil
	}
	return l.options.WaitFor(object)
}

// observeDependencies observes the objects that the object of a pass waits for. It returns the blocker
// of a change, and whether this is the first pass after the wait. The error is pending while a cache syncs.
func (l *Loop[T, S]) observeDependencies(p *kind.Pass[T]) (becameReady bool, blockers []Blocker, err error) {
	all := l.waitsFor(p.Object)
	l.dependencies.use(l.owner(p.Key()), all)
	if len(all) == 0 {
		p.Conditions().Remove(releasev1alpha1.ConditionDependencyReady)
		return false, nil, nil
	}
	reason, message, err := l.dependencies.judge(Dependency{Kind: l.definition.GroupVersionKind, Name: p.Key()}, all)
	if err != nil {
		return false, nil, err
	}
	if reason == releasev1alpha1.ReasonDependencyDeployed {
		before := meta.FindStatusCondition(l.statusOf(p.Observed).Conditions, releasev1alpha1.ConditionDependencyReady)
		p.Conditions().Set(releasev1alpha1.ConditionDependencyReady, metav1.ConditionTrue, reason, message)
		return before != nil && before.Status != metav1.ConditionTrue, nil, nil
	}
	p.Conditions().Set(releasev1alpha1.ConditionDependencyReady, metav1.ConditionFalse, reason, message)
	return false, []Blocker{{
		Reason: reason, Message: message, Stalled: reason != releasev1alpha1.ReasonWaiting, NotForRollback: true,
	}}, nil
}

// readiness is how an object stands to its dependants.
type readiness struct {
	exists, deleting, ready bool
	// is says what the object is when it is ready, and awaited what dependants wait for.
	is, awaited string
	// inCycle says that the object waits for itself. waitsFor are the objects that it waits for.
	inCycle  bool
	waitsFor []Dependency
}

// deployedReadiness is the readiness of an object with a release. An object with waitForReady must have
// been healthy once. While a newer revision is rolled out, Deployed stays True until that revision fails.
func deployedReadiness(conditions []metav1.Condition, waitForReady bool, lastGoodRevision int64) readiness {
	deployed := meta.IsStatusConditionTrue(conditions, releasev1alpha1.ConditionDeployed)
	s := readiness{exists: true, ready: deployed, is: "deployed", awaited: "to be deployed"}
	if deployed && waitForReady && lastGoodRevision == 0 {
		s.ready, s.awaited = false, "to become healthy, because it has waitForReady"
	}
	found := meta.FindStatusCondition(conditions, releasev1alpha1.ConditionDependencyReady)
	s.inCycle = found != nil && found.Reason == releasev1alpha1.ReasonDependencyCycle
	return s
}

// same reports whether dependants may treat two versions of an object alike.
func (s readiness) same(other readiness) bool {
	return s.exists == other.exists && s.deleting == other.deleting && (s.deleting || s.ready == other.ready) &&
		s.inCycle == other.inCycle && slices.Equal(s.waitsFor, other.waitsFor)
}

// judge decides whether all dependencies of an object are ready. It returns the reason and the message of
// the condition DependencyReady, or a pending error while a cache syncs.
func (d *Dependencies) judge(self Dependency, all []Dependency) (reason, message string, err error) {
	if len(all) > maxDependencies {
		return releasev1alpha1.ReasonDependencyRefused, fmt.Sprintf("waitFor names %d objects; it may name %d", len(all), maxDependencies), nil
	}
	if cycle := d.findCycle(self, all); cycle != nil {
		return releasev1alpha1.ReasonDependencyCycle,
			fmt.Sprintf("waitFor leads back to this %s: %s; change waitFor of one of them", self.Kind.Kind, strings.Join(cycle, " -> ")), nil
	}
	var refused, waiting, ready []string
	for _, dependency := range all {
		name := dependency.describe(self)
		if why := d.refuse(self, dependency); why != "" {
			refused = append(refused, name+", "+why)
			continue
		}
		switch found, err := d.readiness(self, dependency); {
		case controller.IsPending(err):
			return "", "", err
		case err != nil:
			waiting = append(waiting, name+", "+err.Error())
		case !found.exists:
			waiting = append(waiting, name+", which does not exist")
		case found.deleting:
			waiting = append(waiting, name+", which is being deleted")
		case !found.ready:
			waiting = append(waiting, name+" "+found.awaited)
		default:
			ready = append(ready, name+" is "+found.is)
		}
	}
	switch {
	case len(refused) > 0:
		return releasev1alpha1.ReasonDependencyRefused, "Cannot wait for " + strings.Join(refused, "; "), nil
	case len(waiting) > 0:
		return releasev1alpha1.ReasonWaiting, "Waiting for " + strings.Join(waiting, "; "), nil
	default:
		return releasev1alpha1.ReasonDependencyDeployed, strings.Join(ready, "; "), nil
	}
}

// describe names a dependency for an object that waits for it.
func (d Dependency) describe(self Dependency) string {
	name := fmt.Sprintf("%s %q", d.Kind.Kind, d.Name.Name)
	if d.Name.Namespace != self.Name.Namespace {
		name += fmt.Sprintf(" in namespace %q", d.Name.Namespace)
	}
	return name
}

const (
	// maxRing is the number of objects of the largest ring that is found.
	maxRing = 32
	// maxVisits bounds the objects that are looked up for rings in a pass. The objects of a larger ring
	// wait for each other without end, and no condition says so.
	maxVisits = 256
)

// findCycle returns the names on a shortest path from the object back to itself, both ends included; nil
// without a cycle. A cycle that the object leads to, but is not part of, does not count.
func (d *Dependencies) findCycle(self Dependency, waitsFor []Dependency) []string {
	type step struct {
		dependency Dependency
		before     *step
		length     int
	}
	start := &step{dependency: self, length: 1}
	queue, seen := []*step{start}, map[dependencyKey]bool{}
	for len(queue) > 0 && len(seen) <= maxVisits {
		at := queue[0]
		queue = queue[1:]
		if at != start {
			found, _ := d.known(self, at.dependency)
			waitsFor = found.waitsFor
		}
		for _, next := range waitsFor {
			if next.key() == self.key() {
				path := []string{self.Name.Name}
				for ; at != start; at = at.before {
					path = append(path, at.dependency.short(self))
				}
				path = append(path, self.Name.Name)
				slices.Reverse(path)
				return path
			}
			if !seen[next.key()] && at.length < maxRing {
				seen[next.key()] = true
				queue = append(queue, &step{dependency: next, before: at, length: at.length + 1})
			}
		}
	}
	return nil
}

// short names a dependency on the path from an object.
func (d Dependency) short(self Dependency) string {
	name := d.Name.Name
	if d.Name.Namespace != self.Name.Namespace {
		name = d.Name.String()
	}
	if d.Kind.GroupKind() != self.Kind.GroupKind() {
		name = d.Kind.Kind + " " + name
	}
	return name
}
