// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/served"
)

const (
	// kindRetry is the first interval of the checks for waiting kinds. The interval grows by half
	// each time, up to one of the limits below. A random time of up to half of the interval is
	// added.
	kindRetry = 500 * time.Millisecond
	// maxRecentRetry is the maximum interval within recentTime after a change of an obstacle. An
	// administrator often applies the CRD of a kind first and its permissions a moment later. The
	// operator cannot watch permissions, so it polls.
	maxRecentRetry = 20 * time.Second
	recentTime     = 2 * time.Minute
	// maxOutageRetry is the maximum interval while the API server does not answer or cannot list a
	// resource.
	maxOutageRetry = 10 * time.Second
	// maxKindRetry is the maximum interval in all other cases. With the random addition, it is 5
	// minutes.
	maxKindRetry = 200 * time.Second
)

// Kind registers a kind with the process.
type Kind struct {
	// Name identifies the kind in logs, errors, metrics and --controllers.
	Name string
	// Resources are the resources that the kind watches from its start: first its own resource,
	// then its children, but not the resources of OnDemand informers. They must be namespaced. The
	// kind waits until the API server serves them and the operator may list and watch them in each
	// watched namespace. If a resource disappears later, its informers retry until it is served
	// again.
	Resources []schema.GroupVersionResource
	// ClusterResources are cluster-scoped resources that the kind cannot run without. If the
	// operator watches some namespaces only, it may have no permission for them, and the kind waits
	// for that permission, too. If the operator watches all namespaces, it does not ask for them.
	ClusterResources []schema.GroupVersionResource
	// Rules returns the further permissions that the kind needs while it runs. Those for resources
	// that the API server does not serve do not count. A process that starts without such a
	// permission is not ready, and does not take the lease. If the process runs already, the kind
	// waits. Optional.
	Rules func(served.Snapshot) []Rule
	// Build adds the kind's informers, services and controllers to the environment. It is called
	// once, when the Resources can be watched. An error of Build ends the process. A kind that has
	// nothing to run with the program's flags has no Build: [Options.Select] then only knows its
	// name.
	Build func(*Environment) error
	// Optional are parts of the kind that need further resources, which the API server may not
	// serve: children of a kind that users need not install. A part waits for its resources like a
	// kind, under the name kind/part. Its Build is called after the Build of the kind.
	Optional []Kind

	// optional is true for an optional part.
	optional bool
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
			part.optional = true
			all = append(all, part)
		}
	}
	return all
}

// obstacle is the reason why a kind cannot run with a resource.
type obstacle string

const (
	notServed  obstacle = "is not served, install its CRD"
	notAllowed obstacle = "is forbidden, grant list and watch"
	notGranted obstacle = "needs further permissions"
	unlistable obstacle = "cannot be listed"
)

// watchable returns the error of the API server if a resource cannot be watched in a namespace.
type watchable func(ctx context.Context, resource schema.GroupVersionResource, namespace string) error

// askToWatch returns a watchable that sends the requests of an informer: a list, limited to one
// object, and a watch.
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

// kindQueue holds the kinds that cannot run yet.
type kindQueue struct {
	waiting    []Kind
	namespaces []string
	ask        questions
	crds       *definitions
	// host is the API server.
	host    string
	metrics *kindMetrics
	// lacking is called with the permissions that the process lacks at its start, and with none
	// when all are granted.
	lacking func(permissions []string)

	// seen are the resources that could be watched at an earlier check. They are not checked again.
	seen map[schema.GroupVersionResource]bool
	// logged are the waits that are in the log.
	logged map[waitingFor]bool
	// waits are the results of the last answered round. answered is true if the last round was
	// answered.
	waits    []waitingFor
	answered bool
	// crdsForbidden is true if the role does not allow watching CRDs.
	crdsForbidden bool
	// waitsUnlogged is true while the waits are not in the log, because they may end with the next
	// round.
	waitsUnlogged bool
	// failures are the errors of the resources that cannot be listed.
	failures map[schema.GroupVersionResource]error
	// missing are the missing permissions of the last answered round, by kind. loggedMissing are
	// the permissions that are already in the log.
	missing, loggedMissing map[string][]permission
}

// waitingFor is a resource for which a kind waits, and the reason.
type waitingFor struct {
	kind     string
	resource schema.GroupVersionResource
	why      obstacle
}

func newKindQueue(kinds []Kind, namespaces []string, ask questions, crds *definitions, host string, metrics *kindMetrics) *kindQueue {
	for _, kind := range kinds {
		metrics.waiting.WithLabelValues(kind.Name).Set(1)
	}
	return &kindQueue{
		waiting: slices.Clone(kinds), namespaces: namespaces, ask: ask, crds: crds, host: host, metrics: metrics,
		lacking: func([]string) {},
		seen:    map[schema.GroupVersionResource]bool{}, logged: map[waitingFor]bool{},
		failures: map[schema.GroupVersionResource]error{},
	}
}

// preflight removes the kinds that can start from the queue and returns them. While an installed
// kind lacks permissions, preflight waits and checks again. It returns an error if the API server
// rejects the credentials, or does not answer within preflightTimeout.
func (q *kindQueue) preflight(ctx context.Context) ([]Kind, error) {
	var startable []Kind
	delay := kindRetry
	for {
		found, err := q.take(ctx, q.ask.persistently())
		if err != nil {
			return nil, q.explain(err)
		}
		startable = append(startable, found...)
		q.lacking(described(q.missing))
		if len(q.missing) == 0 {
			return startable, nil
		}
		select {
		case <-time.After(wait.Jitter(delay, 0.5)):
			delay = min(delay+delay/2, maxRecentRetry)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// explain returns the error of a process that could not reach the API server.
func (q *kindQueue) explain(err error) error {
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s rejects the credentials: %w", q.host, err)
	case isTransient(err):
		return fmt.Errorf("the API server at %s does not answer (tried for %v): %w", q.host, preflightTimeout, err)
	default:
		return fmt.Errorf("asking the API server at %s: %w", q.host, err)
	}
}

// run calls start for each kind that can start, until no kind waits or ctx ends. It checks at
// growing intervals, and at once when a CRD is established. While all kinds wait for watched CRDs,
// it sends no requests. run returns the errors of start.
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
			delay += delay / 2
		case <-q.crds.established:
			delay, changed = kindRetry, time.Now()
		case <-ctx.Done():
			return nil
		}
		before := q.waits
		startable, err := q.take(ctx, q.ask.once())
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

// defined returns the resources of the last round whose CRDs trigger the next check.
func (q *kindQueue) defined() []schema.GroupVersionResource {
	if q.crdsForbidden {
		return nil
	}
	var resources []schema.GroupVersionResource
	for _, w := range q.waits {
		if w.why == notServed && !slices.Contains(resources, w.resource) {
			resources = append(resources, w.resource)
		}
	}
	return resources
}

// longestDelay returns the maximum interval of checks after the last round. It returns 0 if the
// next check waits for a CRD. The operator cannot watch permissions or the end of a failure. recent
// is the time since an obstacle has changed.
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
		waits := slices.DeleteFunc(slices.Clone(q.waits), func(w waitingFor) bool { return w.kind != kind.Name })
		switch {
		case slices.ContainsFunc(waits, func(w waitingFor) bool { return q.crds.awaits(w.resource) }):
		case slices.ContainsFunc(waits, func(w waitingFor) bool { return w.why == unlistable }):
			shorten(maxOutageRetry)
		default:
			shorten(permissionRetry(recent))
		}
	}
	return longest
}

// take removes the kinds that can start from the queue and returns them. It logs once for each kind
// and obstacle why a kind waits. Obstacles other than a missing CRD may be short, while a CRD or a
// permission is installed or removed. They are logged when the next round has found the same, so
// that one line has the final obstacles of all kinds. An error means that the API server did not
// answer, or rejected the credentials. The remaining kinds were not checked.
func (q *kindQueue) take(ctx context.Context, ask questions) ([]Kind, error) {
	var (
		startable []Kind
		waits     []waitingFor
	)
	round, refused := q.newRound(ctx, ask)
	q.waiting = slices.DeleteFunc(q.waiting, func(kind Kind) bool {
		var found []waitingFor
		if refused == nil {
			found, refused = round.obstacles(ctx, kind)
		}
		waits = append(waits, found...)
		if refused != nil {
			return false
		}
		q.metrics.setWaiting(kind.Name, slices.ContainsFunc(found, func(w waitingFor) bool { return w.why != notServed }))
		if len(found) > 0 {
			return false
		}
		startable = append(startable, kind)
		return true
	})
	if refused == nil {
		q.crdsForbidden, refused = round.crdsForbidden(ctx, waits)
	}
	if q.answered = refused == nil; !q.answered {
		return startable, refused
	}
	for kind := range q.missing {
		q.metrics.setMissing(kind, round.missing[kind])
	}
	for kind, missing := range round.missing {
		q.metrics.setMissing(kind, missing)
	}
	q.missing = round.missing
	momentary := func(w waitingFor) bool { return w.why != notServed }
	q.waitsUnlogged = slices.ContainsFunc(waits, momentary) && !slices.Equal(waits, q.waits)
	if !q.waitsUnlogged {
		q.logWaits(ctx, waits)
		q.logMissing(ctx)
	}
	q.waits = waits
	return startable, nil
}

// logWaits logs the obstacles of waiting kinds that are not in the log yet. One line names the
// kinds that are not installed, and one line names the permissions. Each resource that cannot be
// listed has a separate line with its error.
func (q *kindQueue) logWaits(ctx context.Context, waits []waitingFor) {
	absent, kinds, reasons := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, w := range waits {
		if w.why == unlistable {
			w.kind = ""
		}
		if q.logged[w] {
			continue
		}
		q.logged[w] = true
		switch w.why {
		case notGranted: // See logMissing.
		case notServed:
			absent[w.kind] = true
		case unlistable:
			klog.FromContext(ctx).Error(q.failures[w.resource], "A resource cannot be listed; the kinds that watch it wait",
				"resource", w.resource.GroupResource())
		default:
			kinds[w.kind] = true
			reasons[fmt.Sprintf("%s/%s %s", w.resource.GroupResource(), w.resource.Version, w.why)] = true
		}
	}
	if len(absent) > 0 {
		klog.FromContext(ctx).Info("Kinds without a CRD are not installed; they start when it is", "kinds", joined(absent))
	}
	if len(kinds) > 0 {
		klog.FromContext(ctx).Info("Waiting for permissions; the kinds start when they are granted",
			"kinds", joined(kinds), "because", strings.Join(slices.Sorted(maps.Keys(reasons)), "; "))
	}
}

// logMissing logs the permissions that installed kinds lack, if they have changed.
func (q *kindQueue) logMissing(ctx context.Context) {
	for _, kind := range slices.Sorted(maps.Keys(q.missing)) {
		if !slices.Equal(q.missing[kind], q.loggedMissing[kind]) {
			logMissing(ctx, kind, q.missing[kind])
		}
	}
	q.loggedMissing = q.missing
}

// logMissing logs the permissions that a kind lacks.
func logMissing(ctx context.Context, kind string, missing []permission) {
	klog.FromContext(ctx).Error(nil, "The role of the operator lacks permissions of an installed kind; the kind waits until they are granted",
		"kind", kind, "permissions", strings.Join(described(map[string][]permission{kind: missing}), "; "))
}

// permitted waits until the role grants the rules of an installed kind. Meanwhile, the log and the
// metrics name the permissions that the role lacks. It returns an error if ctx ends, or if a
// question fails.
func permitted(ctx context.Context, ask questions, namespaces []string, metrics *kindMetrics, kind string, rules func(served.Snapshot) []Rule) error {
	defer metrics.setMissing(kind, nil)
	var logged []permission
	begin := time.Now()
	for delay := kindRetry; ; delay = min(delay+delay/2, permissionRetry(time.Since(begin))) {
		snapshot, err := ask.discover(ctx)
		if err != nil {
			return err
		}
		missing, err := newReview(ask.access).missing(ctx, needed(rules(snapshot), snapshot, namespaces))
		if err != nil || len(missing) == 0 {
			return err
		}
		metrics.setMissing(kind, missing)
		if !slices.Equal(missing, logged) {
			logMissing(ctx, kind, missing)
			logged = missing
		}
		select {
		case <-time.After(wait.Jitter(delay, 0.5)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// permissionRetry returns the longest interval at which a permission is asked for again. recent is
// the time since an obstacle has changed.
func permissionRetry(recent time.Duration) time.Duration {
	if recent < recentTime {
		return maxRecentRetry
	}
	return maxKindRetry
}

func joined(names map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}
