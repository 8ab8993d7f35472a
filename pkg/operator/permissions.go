// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/served"
)

// maxDescribed bounds how many missing permissions are logged, measured and shown by /readyz.
const maxDescribed = 20

// noNamespace is the namespace of a review of the permissions in all namespaces. No namespace can
// have this name, so no Role adds permissions to it.
const noNamespace = "-"

// Rule is a permission that a kind needs.
type Rule struct {
	rbacv1.PolicyRule
	// Namespaces are where the kind needs the permission. metav1.NamespaceAll stands for all
	// namespaces, and for cluster-scoped resources. The default are the watched namespaces.
	Namespaces []string
}

// permission is the smallest part of a rule.
type permission struct {
	namespace string
	resource  schema.GroupResource
	// subresource, and the name of the only object, are empty if the rule has none.
	subresource, name string
	verb              string
}

// needed returns the permissions that rules consist of. Permissions for resources that are not
// served are left out.
func needed(rules []Rule, snapshot served.Snapshot, watched []string) []permission {
	var all []permission
	for _, rule := range rules {
		namespaces, names := rule.Namespaces, rule.ResourceNames
		if namespaces == nil {
			namespaces = watched
		}
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, path := range rule.Resources {
				name, subresource, _ := strings.Cut(path, "/")
				resource := schema.GroupResource{Group: group, Resource: name}
				if !snapshot.HasSome(resource) {
					continue
				}
				for _, namespace := range namespaces {
					for _, object := range names {
						for _, verb := range rule.Verbs {
							all = append(all, permission{namespace, resource, subresource, object, verb})
						}
					}
				}
			}
		}
	}
	return all
}

// grantedBy reports whether a rule grants the permission, as RBAC does.
func (p permission) grantedBy(rule authorizationv1.ResourceRule) bool {
	path := p.resource.Resource
	paths := []string{rbacv1.ResourceAll}
	if p.subresource != "" {
		path += "/" + p.subresource
		paths = append(paths, rbacv1.ResourceAll+"/"+p.subresource)
	}
	return slices.ContainsFunc(rule.Resources, func(granted string) bool { return granted == path || slices.Contains(paths, granted) }) &&
		(slices.Contains(rule.Verbs, p.verb) || slices.Contains(rule.Verbs, rbacv1.VerbAll)) &&
		(slices.Contains(rule.APIGroups, p.resource.Group) || slices.Contains(rule.APIGroups, rbacv1.APIGroupAll)) &&
		(len(rule.ResourceNames) == 0 || p.name != "" && slices.Contains(rule.ResourceNames, p.name))
}

// path describes the resource, as in rules: "deployments.apps" or
// "websites.webapp.example.com/status".
func (p permission) path() string {
	if p.subresource == "" {
		return p.resource.String()
	}
	return p.resource.String() + "/" + p.subresource
}

// target describes the permission without its verb: a resource, and where.
func (p permission) target() string {
	text := p.path()
	if p.name != "" {
		text += " " + p.name
	}
	if p.namespace == metav1.NamespaceAll {
		return text + " in all namespaces"
	}
	return text + " in namespace " + p.namespace
}

// described returns a line for each resource on which kinds lack permissions, at most maxDescribed
// lines.
func described(missing map[string][]permission) []string {
	verbs := map[string][]string{}
	for _, permissions := range missing {
		for _, p := range permissions {
			if target := p.target(); !slices.Contains(verbs[target], p.verb) {
				verbs[target] = append(verbs[target], p.verb)
			}
		}
	}
	targets := slices.Sorted(maps.Keys(verbs))
	var lines []string
	for _, target := range targets[:min(len(targets), maxDescribed)] {
		lines = append(lines, strings.Join(verbs[target], ", ")+" "+target)
	}
	if further := len(targets) - len(lines); further > 0 {
		lines = append(lines, fmt.Sprintf("%d further resources", further))
	}
	return lines
}

// access are the questions about the operator's own permissions. Each user may ask them.
type access struct {
	// rules returns the permissions of the operator in a namespace.
	rules func(ctx context.Context, namespace string) (authorizationv1.SubjectRulesReviewStatus, error)
	// allowed reports whether the operator has a permission.
	allowed func(ctx context.Context, p permission) (bool, error)
}

// review compares needed permissions with the operator's permissions. It asks once for each
// namespace, and for single permissions only where the API server does not know all rules.
type review struct {
	access

	known map[string]authorizationv1.SubjectRulesReviewStatus
}

func newReview(access access) *review {
	return &review{access: access, known: map[string]authorizationv1.SubjectRulesReviewStatus{}}
}

// missing returns the permissions that the operator does not have. If it may not ask, all count as
// granted.
func (r *review) missing(ctx context.Context, permissions []permission) ([]permission, error) {
	var missing []permission
	for _, p := range permissions {
		granted, err := r.grants(ctx, p)
		switch {
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			klog.FromContext(ctx).V(1).Info("The API server does not tell what the operator may do", "err", err)
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("the own permissions: %w", err)
		case !granted && !slices.Contains(missing, p):
			missing = append(missing, p)
		}
	}
	return missing, nil
}

func (r *review) grants(ctx context.Context, p permission) (bool, error) {
	grants := func(status authorizationv1.SubjectRulesReviewStatus) bool {
		return slices.ContainsFunc(status.ResourceRules, p.grantedBy)
	}
	if grants(r.known[noNamespace]) {
		return true, nil
	}
	namespace := cmp.Or(p.namespace, noNamespace)
	status, ok := r.known[namespace]
	if !ok {
		var err error
		if status, err = r.rules(ctx, namespace); err != nil {
			return false, err
		}
		r.known[namespace] = status
	}
	if grants(status) || !status.Incomplete {
		return grants(status), nil
	}
	return r.allowed(ctx, p)
}

// questions are all questions of a kindQueue to the API server.
type questions struct {
	discover  func(ctx context.Context) (served.Snapshot, error)
	access    access
	watchable watchable
}

// newQuestions returns questions that are sent with these clients.
func newQuestions(clients *Clients) questions {
	return questions{
		discover: func(ctx context.Context) (served.Snapshot, error) {
			return served.Discover(ctx, clients.Kube.Discovery())
		},
		access:    newAccess(clients.Kube.AuthorizationV1()),
		watchable: askToWatch(clients.Metadata),
	}
}

func newAccess(client authorizationv1client.AuthorizationV1Interface) access {
	return access{
		rules: func(ctx context.Context, namespace string) (authorizationv1.SubjectRulesReviewStatus, error) {
			answer, err := client.SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
				Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
			}, metav1.CreateOptions{})
			if err != nil {
				return authorizationv1.SubjectRulesReviewStatus{}, err
			}
			return answer.Status, nil
		},
		allowed: func(ctx context.Context, p permission) (bool, error) {
			answer, err := client.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: p.namespace, Verb: p.verb, Group: p.resource.Group, Version: "*", Resource: p.resource.Resource,
					Subresource: p.subresource, Name: p.name,
				}},
			}, metav1.CreateOptions{})
			return err == nil && answer.Status.Allowed, err
		},
	}
}

// once returns the questions with a timeout for each request.
func (q questions) once() questions {
	return q.wrapped(func(ctx context.Context, ask func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, preflightRequestTimeout)
		defer cancel()
		return ask(ctx)
	})
}

// persistently returns the questions with retries while the API server does not answer.
func (q questions) persistently() questions { return q.wrapped(retryTransient) }

// wrapped returns the questions, each sent by send.
func (q questions) wrapped(send func(ctx context.Context, ask func(context.Context) error) error) questions {
	return questions{
		discover: func(ctx context.Context) (snapshot served.Snapshot, err error) {
			err = send(ctx, func(ctx context.Context) error {
				snapshot, err = q.discover(ctx)
				return err
			})
			return snapshot, err
		},
		access: access{
			rules: func(ctx context.Context, namespace string) (status authorizationv1.SubjectRulesReviewStatus, err error) {
				err = send(ctx, func(ctx context.Context) error {
					status, err = q.access.rules(ctx, namespace)
					return err
				})
				return status, err
			},
			allowed: func(ctx context.Context, p permission) (allowed bool, err error) {
				err = send(ctx, func(ctx context.Context) error {
					allowed, err = q.access.allowed(ctx, p)
					return err
				})
				return allowed, err
			},
		},
		watchable: func(ctx context.Context, resource schema.GroupVersionResource, namespace string) (answer error) {
			err := send(ctx, func(ctx context.Context) error {
				if answer = q.watchable(ctx, resource, namespace); isAnswer(answer) {
					return nil // A failure of this resource only.
				}
				return answer
			})
			return cmp.Or(err, answer)
		},
	}
}
