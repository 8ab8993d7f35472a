// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/served"
)

// round is one check of all waiting kinds.
type round struct {
	*kindQueue

	ask    questions
	served served.Snapshot
	review *review
	// found has the obstacles of the resources that were already checked.
	found map[schema.GroupVersionResource]obstacle
	// missing are the permissions that kinds lack.
	missing map[string][]permission
}

func (q *kindQueue) newRound(ctx context.Context, ask questions) (*round, error) {
	snapshot, err := ask.discover(ctx)
	if err != nil {
		return nil, err
	}
	return &round{
		kindQueue: q, ask: ask, served: snapshot, review: newReview(ask.access),
		found: map[schema.GroupVersionResource]obstacle{}, missing: map[string][]permission{},
	}, nil
}

// obstacles returns the resources for which a kind waits. It does not check the permissions of a
// kind that is not installed.
func (r *round) obstacles(ctx context.Context, kind Kind) ([]waitingFor, error) {
	var found []waitingFor
	for _, resource := range kind.Resources {
		if !r.served.Has(resource) {
			found = append(found, waitingFor{kind.Name, resource, notServed})
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	found, err := r.forbidden(ctx, kind)
	if err != nil || len(found) > 0 {
		return found, err
	}
	missing, err := r.review.missing(ctx, needed(r.rulesOf(kind), r.served, r.namespaces))
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		r.missing[kind.Name] = missing
		return []waitingFor{{kind: kind.Name, why: notGranted}}, nil
	}
	for _, resource := range kind.Resources {
		why, err := r.obstacle(ctx, resource)
		if err != nil {
			return nil, err
		}
		if why != "" {
			found = append(found, waitingFor{kind.Name, resource, why})
		}
	}
	return found, nil
}

// crdsForbidden reports whether kinds wait for CRDs that the operator may not watch.
func (r *round) crdsForbidden(ctx context.Context, waits []waitingFor) (bool, error) {
	if !slices.ContainsFunc(waits, func(w waitingFor) bool { return w.why == notServed }) {
		return false, nil
	}
	crds := watchRule(served.Definitions, []string{metav1.NamespaceAll})
	missing, err := r.review.missing(ctx, needed([]Rule{crds}, r.served, nil))
	if len(missing) > 0 {
		r.crds.refuse(ctx)
	}
	return len(missing) > 0, err
}

// forbidden returns the resources without which a kind counts as not enabled by the administrator:
// the role does not allow watching its custom resources, or a cluster-scoped resource that a role
// for some namespaces lacks on purpose. An optional part is enabled if the role allows all of its
// resources.
func (r *round) forbidden(ctx context.Context, kind Kind) ([]waitingFor, error) {
	own := kind.Resources
	if len(own) > 1 && !kind.optional {
		own = own[:1]
	}
	var rules []Rule
	for _, resource := range own {
		rules = append(rules, watchRule(resource, nil))
	}
	if !slices.Contains(r.namespaces, metav1.NamespaceAll) {
		for _, resource := range kind.ClusterResources {
			rules = append(rules, watchRule(resource, []string{metav1.NamespaceAll}))
		}
		own = append(slices.Clone(own), kind.ClusterResources...)
	}
	missing, err := r.review.missing(ctx, needed(rules, r.served, r.namespaces))
	var found []waitingFor
	for _, resource := range own {
		if slices.ContainsFunc(missing, func(p permission) bool { return p.resource == resource.GroupResource() }) {
			found = append(found, waitingFor{kind.Name, resource, notAllowed})
		}
	}
	return found, err
}

// rulesOf returns all rules that a kind needs: the rules of its informers, and [Kind.Rules].
func (r *round) rulesOf(kind Kind) []Rule {
	var rules []Rule
	for _, resource := range kind.Resources {
		rules = append(rules, watchRule(resource, nil))
	}
	if kind.Rules != nil {
		rules = append(rules, kind.Rules(r.served)...)
	}
	return rules
}

// watchRule allows the informers of a resource.
func watchRule(resource schema.GroupVersionResource, namespaces []string) Rule {
	return Rule{Namespaces: namespaces, PolicyRule: rbacv1.PolicyRule{
		APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: []string{"list", "watch"},
	}}
}

// obstacle returns the reason why a resource cannot be watched, or "".
func (r *round) obstacle(ctx context.Context, resource schema.GroupVersionResource) (obstacle, error) {
	if r.seen[resource] {
		return "", nil
	}
	why, known := r.found[resource]
	if !known {
		var err error
		if why, err = r.observe(ctx, resource); err != nil {
			return "", err
		}
		r.found[resource] = why
	}
	if why == "" {
		r.seen[resource] = true
	}
	return why, nil
}

// observe returns the reason why a resource cannot be watched in all of the namespaces, or "".
func (r *round) observe(ctx context.Context, resource schema.GroupVersionResource) (obstacle, error) {
	for _, namespace := range r.namespaces {
		err := r.ask.watchable(ctx, resource, namespace)
		switch {
		case err == nil:
		case !isAnswer(err):
			return "", fmt.Errorf("%s: %w", resource.GroupResource(), err)
		case apierrors.IsNotFound(err):
			return notServed, nil
		case apierrors.IsForbidden(err):
			return notAllowed, nil
		default:
			r.failures[resource] = err
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
