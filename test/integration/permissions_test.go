// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	appv1 "github.com/example/demoapp-controller/pkg/apis/app/v1"
	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	configv1 "github.com/example/demoapp-controller/pkg/apis/config/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// rulesFile holds the RBAC rules of the operator. kindRules matches the files with the RBAC rules of opt-in kinds.
const (
	rulesFile = "artifacts/deploy/10-rbac.yaml"
	kindRules = "artifacts/kinds/*/rbac.yaml"
)

// optInGroups are the API groups of opt-in kinds. Until a test installs an opt-in kind and its rules, the API server refuses
// the operator's requests for that kind.
var optInGroups = []string{
	appv1.GroupName, backupv1.GroupName, cachev1.GroupName, databasev1.GroupName, examplev1.GroupName, platformv1.GroupName,
	webappv1.GroupName, configv1.GroupName, "monitoring.coreos.com",
}

// permission is one verb on one resource, for all objects or for one name.
type permission struct {
	group, resource, verb, name string
}

// String implements fmt.Stringer.
func (p permission) String() string {
	text := fmt.Sprintf("%s %s", p.verb, p.resource)
	if p.group != "" {
		text += "." + p.group
	}
	if p.name != "" {
		text += "/" + p.name
	}
	return text
}

// checkPermissions compares the operator's requests with its permissions after the tests. It reports unused permissions
// only if whole is true, that is, if all tests of the package ran and passed.
func checkPermissions(ctx context.Context, whole bool) (code int) {
	requests, err := shared.AuditRequests(time.Time{}, cluster.ByOperator())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	refused, err := refusedByRules(ctx, requests)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, request := range refused {
		fmt.Fprintf(os.Stderr, "FAIL: the rules of %s refused the operator: %+v\n", rulesFile, request)
		code = 1
	}
	if !whole {
		return code
	}
	granted, err := grantedPermissions()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, unused := range unusedPermissions(granted, requests) {
		fmt.Fprintf(os.Stderr, "FAIL: %s grants a permission that no test needed: %s\n", rulesFile, unused)
		code = 1
	}
	return code
}

// refusedByRules returns the forbidden requests that RBAC refused. It asks the authorizer again, because admission also
// answers Forbidden, for example for a quota or a terminating namespace.
func refusedByRules(ctx context.Context, requests []cluster.AuditEvent) ([]cluster.AuditEvent, error) {
	var refused []cluster.AuditEvent
	for _, request := range requests {
		if request.Code != http.StatusForbidden || slices.Contains(optInGroups, request.Group) {
			continue
		}
		verbs := []string{request.Verb}
		if request.Verb == "patch" && request.Resource != "persistentvolumeclaims" {
			// Server-side apply may also create the object. Volume claims are patched by UID only, so they exist.
			verbs = append(verbs, "create")
		}
		for _, verb := range verbs {
			allowed, err := isAllowed(ctx, verb, request)
			if err != nil {
				return nil, err
			}
			if !allowed {
				refused = append(refused, request)
				break
			}
		}
	}
	return refused, nil
}

func isAllowed(ctx context.Context, verb string, request cluster.AuditEvent) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: request.User,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: request.Group, Resource: request.Resource, Subresource: request.Subresource,
			Namespace: request.Namespace, Name: request.Name,
		},
	}
	if request.Resource == "" {
		spec.ResourceAttributes = nil
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: verb, Path: request.URI}
	}
	review, err := shared.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask whether the operator may %s: %w", verb, err)
	}
	return review.Status.Allowed, nil
}

// grantedPermissions returns the permissions in the files of rulesFile and kindRules.
func grantedPermissions() ([]permission, error) {
	files, err := filepath.Glob(filepath.Join(shared.Root(), kindRules))
	if err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	var granted []permission
	for _, file := range append(files, filepath.Join(shared.Root(), rulesFile)) {
		rules, err := readRules(file)
		if err != nil {
			return nil, fmt.Errorf("read the rules of %s: %w", file, err)
		}
		granted = append(granted, rules...)
	}
	return granted, nil
}

func readRules(name string) ([]permission, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var granted []permission
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var role rbacv1.ClusterRole // A Role has rules of the same form.
		err := decoder.Decode(&role)
		if errors.Is(err, io.EOF) {
			return granted, nil
		}
		if err != nil {
			return nil, err
		}
		for _, rule := range role.Rules {
			granted = append(granted, permissionsOf(rule)...)
		}
	}
}

func permissionsOf(rule rbacv1.PolicyRule) []permission {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var permissions []permission
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					permissions = append(permissions, permission{group: group, resource: resource, verb: verb, name: name})
				}
			}
		}
	}
	return permissions
}

// rarelyUsed are permissions that a test run may leave unused. The operator patches an event only after two equal events
// about one version of an object.
var rarelyUsed = []permission{{group: "events.k8s.io", resource: "events", verb: "patch"}}

// unusedPermissions returns the permissions that no request needed.
func unusedPermissions(granted []permission, requests []cluster.AuditEvent) []permission {
	return slices.DeleteFunc(slices.Clone(granted), func(p permission) bool {
		if p.verb == "list" {
			// A watch also streams the initial list. The client sends a separate list only if the API server does not
			// support streaming.
			p.verb = "watch"
		}
		return slices.Contains(rarelyUsed, p) || slices.ContainsFunc(requests, p.isUsedBy)
	})
}

func (p permission) isUsedBy(request cluster.AuditEvent) bool {
	resource, subresource, _ := strings.Cut(p.resource, "/")
	if request.Group != p.group || request.Resource != resource || request.Subresource != subresource {
		return false
	}
	if p.name != "" && request.Name != p.name {
		return false
	}
	// Server-side apply of an absent object needs the permission to create it.
	createdByApply := request.Verb == "patch" && request.Code == http.StatusCreated
	return request.Verb == p.verb || p.verb == "create" && createdByApply
}
