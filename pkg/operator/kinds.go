// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
)

const (
	// kindRetry is the first interval at which the API server is asked again for what kinds wait for. The interval grows
	// by half each time, up to one of the two below. Up to half of the interval is added at random.
	kindRetry = 500 * time.Millisecond
	// maxRecentRetry is the longest interval within recentTime after an obstacle has changed. An administrator often applies
	// the CRD of a kind first and its permissions a moment later. The operator cannot watch permissions, so it asks again.
	maxRecentRetry = 20 * time.Second
	recentTime     = 2 * time.Minute
	// maxOutageRetry is the longest interval while the API server does not answer or cannot list a resource.
	maxOutageRetry = 10 * time.Second
	// maxKindRetry is the longest interval otherwise. With what is added at random it is 5 minutes.
	maxKindRetry = 200 * time.Second
	// maxAbsentRetry is the longest interval for a forbidden resource that has no CRD. Its CRD is watched, so the interval
	// only matters to resources of an aggregated API. With what is added at random it is an hour.
	maxAbsentRetry = 40 * time.Minute
)

// Kind registers a kind with the process.
type Kind struct {
	// Name identifies the kind in logs, errors, metrics and --controllers.
	Name string
	// Resources are the resources that the kind watches from its start, its own first: its children too, but not what an
	// OnDemand informer watches. They must be namespaced. The kind waits until the API server serves them and the operator
	// may list and watch them in each watched namespace. If a resource disappears later, its informers retry until it is
	// served again.
	Resources []schema.GroupVersionResource
	// ClusterResources are cluster-scoped resources that the kind cannot run without. If the operator watches some namespaces
	// only, it may have no permission for them, and the kind waits for that permission, too. If the operator watches all
	// namespaces, it does not ask for them.
	ClusterResources []schema.GroupVersionResource
	// Build adds the kind's informers, services and controllers to the environment. It is called once, when the Resources
	// can be watched. An error of Build ends the process. A kind that has nothing to run with the program's flags has no
	// Build: [Options.Select] then only knows its name.
	Build func(*Environment) error
	// Optional are parts of the kind that need further resources, which the API server may not serve: children of a kind
	// that users need not install. A part waits for its resources as a kind does, under the name kind/part, and its Build
	// is called after that of the kind.
	Optional []Kind
}

// withOptional returns kinds and their optional parts.
func withOptional(kinds []Kind) []Kind {
	all := make([]Kind, 0, len(kinds))
	for _, kind := range kinds {
		all = append(all, kind)
		for _, part := range kind.Optional {
			part.Name = kind.Name + "/" + part.Name
			part.Resources = append(slices.Clone(kind.Resources), part.Resources...)
			part.ClusterResources = append(slices.Clone(kind.ClusterResources), part.ClusterResources...)
			all = append(all, part)
		}
	}
	return all
}

// obstacle is the reason why a resource cannot be watched.
type obstacle string

const (
	notServed  obstacle = "is not served, install its CRD"
	notAllowed obstacle = "is forbidden, grant list and watch"
	unlistable obstacle = "cannot be listed"
)

// watchable returns the error of the API server if a resource cannot be watched in a namespace.
type watchable func(ctx context.Context, resource schema.GroupVersionResource, namespace string) error

// askToWatch returns a watchable that sends the requests of an informer: a list, limited to one object, and a watch.
func askToWatch(client metadata.Interface) watchable {
	return func(ctx context.Context, resource schema.GroupVersionResource, namespace string) error {
		objects := client.Resource(resource).Namespace(namespace)
		list, err := objects.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		watch, err := objects.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			return err
		}
		watch.Stop()
		return nil
	}
}

// kindQueue holds the kinds whose resources cannot be watched yet.
type kindQueue struct {
	waiting    []Kind
	namespaces []string
	watchable  watchable
	crds       *definitions
	// host is the API server.
	host  string
	gauge *prometheus.GaugeVec

	// seen are the resources that could be watched at an earlier check. They are not checked again.
	seen map[schema.GroupVersionResource]bool
	// logged are the waits that are in the log.
	logged map[waitingFor]bool
	// waits are those that the last answered round found. answered is true if the last round was answered.
	waits    []waitingFor
	answered bool
	// waitsUnlogged is true while the waits are not in the log, because they may end with the next round.
	waitsUnlogged bool
	// thorough is true if the next round asks for all resources again.
	thorough bool
	// failures are the errors of the resources that cannot be listed.
	failures map[schema.GroupVersionResource]error
}

// waitingFor is a resource for which a kind waits, and the reason.
type waitingFor struct {
	kind     string
	resource schema.GroupVersionResource
	why      obstacle
}

func newKindQueue(
	kinds []Kind, namespaces []string, ask watchable, crds *definitions, host string, gauge *prometheus.GaugeVec,
) *kindQueue {
	for _, kind := range kinds {
		gauge.WithLabelValues(kind.Name).Set(1)
	}
	return &kindQueue{
		waiting: slices.Clone(kinds), namespaces: namespaces, watchable: ask, crds: crds, host: host, gauge: gauge,
		seen: map[schema.GroupVersionResource]bool{}, logged: map[waitingFor]bool{},
		failures: map[schema.GroupVersionResource]error{},
	}
}

// preflight removes the kinds that can start from the queue and returns them. It returns an error if the API server
// rejects the credentials, or does not answer within preflightTimeout.
func (q *kindQueue) preflight(ctx context.Context) ([]Kind, error) {
	startable, err := q.take(ctx, func(ctx context.Context, resource schema.GroupVersionResource, namespace string) error {
		var answer error
		err := retryTransient(ctx, func(ctx context.Context) error {
			answer = q.watchable(ctx, resource, namespace)
			if isAnswer(answer) {
				return nil
			}
			return answer
		})
		if err != nil {
			return err
		}
		return answer
	})
	var refused *refusedError
	switch {
	case !errors.As(err, &refused):
		return startable, err
	case apierrors.IsUnauthorized(err):
		return nil, fmt.Errorf("the API server at %s rejects the credentials: %w", q.host, refused.err)
	case isTransient(err):
		return nil, fmt.Errorf("the API server at %s does not answer (tried for %v): %w", q.host, preflightTimeout, refused.err)
	default:
		return nil, fmt.Errorf("asking the API server at %s for %s: %w", q.host, refused.resource.GroupResource(), refused.err)
	}
}

// run calls start for each kind that can start, until none waits or ctx ends. The API server is asked again at growing
// intervals, and at once when a CRD is established. While all kinds wait for CRDs that can be watched, it is not asked.
// The errors of start are returned.
func (q *kindQueue) run(ctx context.Context, start func(Kind) error) error {
	defer q.crds.follow(ctx, nil)
	delay, changed := kindRetry, time.Now()
	for len(q.waiting) > 0 {
		q.crds.follow(ctx, q.defined())
		var again <-chan time.Time
		longest := q.longestDelay(time.Since(changed))
		if longest > 0 {
			delay = min(delay, longest)
			again = time.After(wait.Jitter(delay, 0.5))
		}
		select {
		case <-again:
			q.thorough = delay >= maxAbsentRetry
			delay += delay / 2
		case <-q.crds.established:
			q.thorough = false
			delay, changed = kindRetry, time.Now()
		case <-ctx.Done():
			return nil
		}
		before := q.waits
		startable, err := q.take(ctx, func(ctx context.Context, resource schema.GroupVersionResource, namespace string) error {
			ctx, cancel := context.WithTimeout(ctx, preflightRequestTimeout)
			defer cancel()
			return q.watchable(ctx, resource, namespace)
		})
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Could not check the resources of the waiting kinds", "err", err)
		}
		if !slices.Equal(before, q.waits) {
			delay, changed = kindRetry, time.Now()
		}
		for _, kind := range startable {
			if err := start(kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// defined returns the resources of the last round whose CRDs may tell when to ask again. A forbidden resource may have no
// CRD yet.
func (q *kindQueue) defined() []schema.GroupVersionResource {
	var resources []schema.GroupVersionResource
	for _, w := range q.waits {
		if (w.why == notServed || w.why == notAllowed && mayHaveCRD(w.resource)) && !slices.Contains(resources, w.resource) {
			resources = append(resources, w.resource)
		}
	}
	return resources
}

// mayHaveCRD reports whether a resource is not one of Kubernetes itself. Kubernetes reserves the groups of k8s.io and those
// without a domain.
func mayHaveCRD(resource schema.GroupVersionResource) bool {
	return strings.Contains(resource.Group, ".") && !strings.HasSuffix(resource.Group, ".k8s.io")
}

// longestDelay returns the longest interval at which the API server is asked again after the last round; 0 if it is not
// asked before a CRD is established. The operator cannot watch permissions or the end of a failure. recent is the time since
// an obstacle has changed.
func (q *kindQueue) longestDelay(recent time.Duration) time.Duration {
	if !q.answered {
		return maxOutageRetry
	}
	longest := time.Duration(0)
	shorten := func(d time.Duration) {
		if longest == 0 || d < longest {
			longest = d
		}
	}
	if q.waitsUnlogged {
		shorten(maxRecentRetry)
	}
	for _, kind := range q.waiting {
		waits := q.waitsOf(kind)
		switch {
		case slices.ContainsFunc(waits, q.awaitsAbsent):
			shorten(maxAbsentRetry)
		case q.awaitsCRD(waits):
		case slices.ContainsFunc(waits, func(w waitingFor) bool { return w.why == unlistable }):
			shorten(maxOutageRetry)
		case recent < recentTime:
			shorten(maxRecentRetry)
		default:
			shorten(maxKindRetry)
		}
	}
	return longest
}

// waitsOf returns what a kind waits for since the last round.
func (q *kindQueue) waitsOf(kind Kind) []waitingFor {
	return slices.DeleteFunc(slices.Clone(q.waits), func(w waitingFor) bool { return w.kind != kind.Name })
}

// awaitsCRD reports whether the watch of a CRD tells when it is worth asking again for what a kind waits for.
func (q *kindQueue) awaitsCRD(waits []waitingFor) bool {
	return slices.ContainsFunc(waits, func(w waitingFor) bool { return q.crds.awaits(w.resource) })
}

// awaitsAbsent reports whether a forbidden resource has no CRD.
func (q *kindQueue) awaitsAbsent(w waitingFor) bool {
	return w.why == notAllowed && q.crds.awaits(w.resource)
}

// take removes the kinds that can start from the queue and returns them. It logs once for each kind and obstacle why a
// kind waits. Obstacles other than a missing CRD may be short, while a CRD or a permission is installed or removed. They are
// logged when the next round has found the same, so that one line has the final obstacles of all kinds. An error is a
// refusedError: the kinds after it were not asked for.
func (q *kindQueue) take(ctx context.Context, ask watchable) ([]Kind, error) {
	var (
		startable []Kind
		waits     []waitingFor
		refused   error
	)
	// A resource of several kinds is checked once.
	asked := map[schema.GroupVersionResource]obstacle{}
	q.waiting = slices.DeleteFunc(q.waiting, func(kind Kind) bool {
		var found []waitingFor
		if refused == nil {
			found, refused = q.lookAgain(ctx, ask, kind, asked)
		}
		waits = append(waits, found...)
		if refused != nil || len(found) > 0 {
			return false
		}
		q.gauge.WithLabelValues(kind.Name).Set(0)
		startable = append(startable, kind)
		return true
	})
	q.answered = refused == nil
	if !q.answered {
		return startable, refused
	}
	momentary := func(w waitingFor) bool { return w.why != notServed }
	q.waitsUnlogged = slices.ContainsFunc(waits, momentary) && !slices.Equal(waits, q.waits)
	if !q.waitsUnlogged {
		q.logWaits(ctx, waits)
	}
	q.waits, q.thorough = waits, false
	return startable, nil
}

// lookAgain returns the obstacles of a kind as obstacles does, with fewer requests if the waits of the kind are logged. It
// sends none while a CRD of the kind is watched. Otherwise it asks for the first obstacle, and for the others only if the
// first has changed.
func (q *kindQueue) lookAgain(
	ctx context.Context, ask watchable, kind Kind, asked map[schema.GroupVersionResource]obstacle,
) ([]waitingFor, error) {
	known := q.waitsOf(kind)
	if q.waitsUnlogged || len(known) == 0 {
		return q.obstacles(ctx, ask, kind, asked)
	}
	if !q.thorough && q.awaitsCRD(known) {
		return known, nil
	}
	first, err := q.obstacle(ctx, ask, kind, known[0].resource, asked)
	if err != nil || first == known[0].why {
		return known, err
	}
	return q.obstacles(ctx, ask, kind, asked)
}

// obstacles returns the resources for which a kind waits. asked caches the results of this round. If a cluster-scoped
// resource is an obstacle, the others are not asked for: their permissions may be missing on purpose.
func (q *kindQueue) obstacles(
	ctx context.Context, ask watchable, kind Kind, asked map[schema.GroupVersionResource]obstacle,
) ([]waitingFor, error) {
	for _, resources := range [][]schema.GroupVersionResource{q.clusterResources(kind), kind.Resources} {
		var found []waitingFor
		for _, resource := range resources {
			why, err := q.obstacle(ctx, ask, kind, resource, asked)
			if err != nil {
				return nil, err
			}
			if why != "" {
				found = append(found, waitingFor{kind.Name, resource, why})
			}
		}
		if len(found) > 0 {
			return found, nil
		}
	}
	return nil, nil
}

// clusterResources returns the cluster-scoped resources that a kind waits for.
func (q *kindQueue) clusterResources(kind Kind) []schema.GroupVersionResource {
	if slices.Contains(q.namespaces, metav1.NamespaceAll) {
		return nil
	}
	return kind.ClusterResources
}

// obstacle returns the reason why a kind cannot watch a resource, or "".
func (q *kindQueue) obstacle(
	ctx context.Context, ask watchable, kind Kind, resource schema.GroupVersionResource, asked map[schema.GroupVersionResource]obstacle,
) (obstacle, error) {
	if q.seen[resource] {
		return "", nil
	}
	why, known := asked[resource]
	if !known {
		namespaces := q.namespaces
		if slices.Contains(kind.ClusterResources, resource) {
			namespaces = []string{metav1.NamespaceAll}
		}
		var err error
		if why, err = q.observe(ctx, ask, resource, namespaces); err != nil {
			return "", err
		}
		asked[resource] = why
	}
	if why == "" {
		q.seen[resource] = true
	}
	return why, nil
}

// refusedError means that the API server did not answer, or rejected the credentials.
type refusedError struct {
	resource schema.GroupVersionResource
	err      error
}

func (e *refusedError) Error() string {
	return e.resource.GroupResource().String() + ": " + e.err.Error()
}

func (e *refusedError) Unwrap() error { return e.err }

// observe returns the reason why a resource cannot be watched in all of the namespaces, or "".
func (q *kindQueue) observe(
	ctx context.Context, ask watchable, resource schema.GroupVersionResource, namespaces []string,
) (obstacle, error) {
	for _, namespace := range namespaces {
		err := ask(ctx, resource, namespace)
		switch {
		case err == nil:
		case !isAnswer(err):
			return "", &refusedError{resource, err}
		case apierrors.IsNotFound(err):
			return notServed, nil
		case apierrors.IsForbidden(err):
			return notAllowed, nil
		default:
			q.failures[resource] = err
			return unlistable, nil
		}
	}
	return "", nil
}

// isAnswer reports whether err is a response of the API server to an authenticated client.
func isAnswer(err error) bool {
	var status *apierrors.StatusError
	return errors.As(err, &status) && !apierrors.IsUnauthorized(err)
}

// logWaits logs, in one line, which CRDs and permissions kinds wait for, if they are not logged yet. A resource that cannot
// be listed has a line of its own with its error.
func (q *kindQueue) logWaits(ctx context.Context, waits []waitingFor) {
	kinds, reasons := map[string]bool{}, map[string]bool{}
	for _, w := range waits {
		if w.why == unlistable {
			w.kind = ""
		}
		if q.logged[w] {
			continue
		}
		q.logged[w] = true
		if w.why == unlistable {
			klog.FromContext(ctx).Error(q.failures[w.resource], "A resource cannot be listed; the kinds that watch it wait",
				"resource", w.resource.GroupResource())
			continue
		}
		kinds[w.kind] = true
		reasons[fmt.Sprintf("%s/%s %s", w.resource.GroupResource(), w.resource.Version, w.why)] = true
	}
	if len(kinds) == 0 {
		return
	}
	klog.FromContext(ctx).Info("Waiting for CRDs or permissions; the kinds start when both exist",
		"kinds", strings.Join(slices.Sorted(maps.Keys(kinds)), ", "), "because", strings.Join(slices.Sorted(maps.Keys(reasons)), "; "))
}
