// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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

// kindRetry is the time until the API server is asked again for what a kind waits for. It grows to maxKindRetry, and half
// of it at most is added at random.
const kindRetry, maxKindRetry = 500 * time.Millisecond, 10 * time.Second

// Kind registers a kind with the process.
type Kind struct {
	// Name identifies the kind in logs, errors and metrics.
	Name string
	// Resources are the custom resources that the kind watches, its own first; they are namespaced. The kind waits until
	// the API server serves them and the operator may list and watch them in each watched namespace. A resource that
	// disappears later stops nothing: its informers retry until it is back.
	Resources []schema.GroupVersionResource
	// Build adds the kind's informers, services and controllers to the environment. It is called once, when Resources can
	// be watched. Its error ends the process.
	Build func(*Environment) error
}

// obstacle is why a resource cannot be watched.
type obstacle string

const (
	notServed  obstacle = "is not served, install its CRD"
	notAllowed obstacle = "is forbidden, grant list and watch"
	unlistable obstacle = "cannot be listed"
)

// watchable asks the API server whether a resource can be watched in a namespace, and returns its error if not.
type watchable func(ctx context.Context, resource schema.GroupVersionResource, namespace string) error

// askToWatch returns a watchable that does what informers do: it lists, but one object only, and begins a watch.
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

// kindQueue holds the kinds that wait until their resources can be watched.
type kindQueue struct {
	waiting    []Kind
	namespaces []string
	watchable  watchable
	// host is the API server.
	host  string
	gauge *prometheus.GaugeVec

	// seen are the resources that could be watched once. They are not asked for again.
	seen map[schema.GroupVersionResource]bool
	// said is what the log has told of.
	said map[waitingFor]bool
}

// waitingFor is what a kind waits for.
type waitingFor struct {
	kind     string
	resource schema.GroupVersionResource
	why      obstacle
}

func newKindQueue(kinds []Kind, namespaces []string, ask watchable, host string, gauge *prometheus.GaugeVec) *kindQueue {
	for _, kind := range kinds {
		gauge.WithLabelValues(kind.Name).Set(1)
	}
	return &kindQueue{
		waiting: slices.Clone(kinds), namespaces: namespaces, watchable: ask, host: host, gauge: gauge,
		seen: map[schema.GroupVersionResource]bool{}, said: map[waitingFor]bool{},
	}
}

// preflight removes the kinds that can start from the queue and returns them. It returns an error that says what to do when
// the API server refuses to be asked, or does not answer for ten seconds.
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
		return nil, fmt.Errorf("the API server at %s refuses the credentials: %w", q.host, refused.err)
	case isTransient(err):
		return nil, fmt.Errorf("the API server at %s does not answer (tried for %v): %w", q.host, preflightTimeout, refused.err)
	default:
		return nil, fmt.Errorf("asking the API server at %s for %s: %w", q.host, refused.resource.GroupResource(), refused.err)
	}
}

// run calls start for each kind that can start, until none waits or ctx ends. An API server that does not answer is asked
// again. The errors of start are returned.
func (q *kindQueue) run(ctx context.Context, start func(Kind) error) error {
	backoff := wait.Backoff{Duration: kindRetry, Factor: 1.5, Jitter: 0.5, Steps: math.MaxInt32, Cap: maxKindRetry}
	for len(q.waiting) > 0 {
		retry := time.NewTimer(backoff.Step())
		select {
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
			return nil
		}
		startable, err := q.take(ctx, func(ctx context.Context, resource schema.GroupVersionResource, namespace string) error {
			ctx, cancel := context.WithTimeout(ctx, preflightRequestTimeout)
			defer cancel()
			return q.watchable(ctx, resource, namespace)
		})
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot ask the API server for the resources of the waiting kinds", "err", err)
		}
		for _, kind := range startable {
			if err := start(kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// take removes the kinds that can start from the queue and returns them. It logs once for each kind and obstacle why a
// kind waits. An error is a refusedError: the kinds after it were not asked for.
func (q *kindQueue) take(ctx context.Context, ask watchable) ([]Kind, error) {
	var (
		startable []Kind
		waits     []waitingFor
		refused   error
	)
	// Kinds that share a resource ask for it once.
	asked := map[schema.GroupVersionResource]obstacle{}
	q.waiting = slices.DeleteFunc(q.waiting, func(kind Kind) bool {
		var found []waitingFor
		if refused == nil {
			found, refused = q.obstacles(ctx, ask, kind, asked)
		}
		waits = append(waits, found...)
		if refused != nil || len(found) > 0 {
			return false
		}
		q.gauge.WithLabelValues(kind.Name).Set(0)
		startable = append(startable, kind)
		return true
	})
	q.say(ctx, waits)
	return startable, refused
}

// obstacles returns what a kind waits for. The answers of this round are in asked.
func (q *kindQueue) obstacles(
	ctx context.Context, ask watchable, kind Kind, asked map[schema.GroupVersionResource]obstacle,
) ([]waitingFor, error) {
	var found []waitingFor
	for _, resource := range kind.Resources {
		if q.seen[resource] {
			continue
		}
		why, known := asked[resource]
		if !known {
			var err error
			if why, err = q.observe(ctx, ask, resource); err != nil {
				return nil, err
			}
			asked[resource] = why
		}
		if why == "" {
			q.seen[resource] = true
			continue
		}
		found = append(found, waitingFor{kind.Name, resource, why})
	}
	return found, nil
}

// refusedError is the error of an API server that cannot be asked, or that does not know who asks.
type refusedError struct {
	resource schema.GroupVersionResource
	err      error
}

func (e *refusedError) Error() string {
	return e.resource.GroupResource().String() + ": " + e.err.Error()
}

func (e *refusedError) Unwrap() error { return e.err }

// observe returns why a resource cannot be watched in all namespaces, or nothing if it can.
func (q *kindQueue) observe(ctx context.Context, ask watchable, resource schema.GroupVersionResource) (obstacle, error) {
	for _, namespace := range q.namespaces {
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
			if w := (waitingFor{resource: resource, why: unlistable}); !q.said[w] {
				q.said[w] = true
				klog.FromContext(ctx).Error(err, "A resource cannot be listed; the kinds that watch it wait", "resource", resource.GroupResource())
			}
			return unlistable, nil
		}
	}
	return "", nil
}

// isAnswer reports whether the API server itself has answered with err, to a client that it knows.
func isAnswer(err error) bool {
	var status *apierrors.StatusError
	return errors.As(err, &status) && !apierrors.IsUnauthorized(err)
}

// say logs, in one line, which CRDs and permissions kinds wait for, if the log has not told of them yet.
func (q *kindQueue) say(ctx context.Context, waits []waitingFor) {
	kinds, reasons := map[string]bool{}, map[string]bool{}
	for _, w := range waits {
		if w.why == unlistable || q.said[w] {
			continue
		}
		q.said[w] = true
		kinds[w.kind] = true
		reasons[fmt.Sprintf("%s/%s %s", w.resource.GroupResource(), w.resource.Version, w.why)] = true
	}
	if len(kinds) == 0 {
		return
	}
	klog.FromContext(ctx).Info("Waiting for CRDs or permissions; the kinds start by themselves when both are there",
		"kinds", strings.Join(slices.Sorted(maps.Keys(kinds)), ", "), "because", strings.Join(slices.Sorted(maps.Keys(reasons)), "; "))
}
