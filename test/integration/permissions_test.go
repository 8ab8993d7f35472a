// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	appv1 "github.com/example/demoapp-controller/pkg/apis/app/v1"
	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	configv1 "github.com/example/demoapp-controller/pkg/apis/config/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	demov1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// The files with the RBAC rules of the operator: for all namespaces, and for some namespaces.
// kindRules and namespacedKindRules match the files of opt-in kinds.
const (
	rulesFile           = "artifacts/deploy/10-rbac.yaml"
	kindRules           = "artifacts/kinds/*/rbac.yaml"
	namespacedDir       = "artifacts/rbac/namespaced/"
	namespacedKindRules = namespacedDir + "kinds/*.yaml"
)

// optInGroups are the API groups of opt-in kinds.
var optInGroups = []string{
	appv1.GroupName, backupv1.GroupName, cachev1.GroupName, databasev1.GroupName, examplev1.GroupName, platformv1.GroupName,
	webappv1.GroupName, configv1.GroupName, "monitoring.coreos.com",
}

// rulesOfFile are the permissions that a file grants.
type rulesOfFile struct {
	// file is the path below the root of the repository.
	file    string
	granted []cluster.Permission
	// kinds are the group and the resource of the kinds that the file is for. It is empty for the
	// operator itself.
	kinds []cluster.Permission
	// holdsIn reports whether the permissions hold in a namespace.
	holdsIn func(namespace string) bool
}

// checkPermissions compares the operator's requests with its permissions after the tests. It
// reports unused permissions only if whole is true, that is, if all tests of the package ran and
// passed.
func checkPermissions(ctx context.Context, whole bool) (code int) {
	fail := func(format string, values ...any) {
		fmt.Fprintf(os.Stderr, "FAIL: "+format+"\n", values...)
		code = 1
	}
	requests, err := shared.AuditRequests(time.Time{}, cluster.ByOperator())
	if err != nil {
		fail("%v", err)
		return code
	}
	refused, err := refusedByRules(ctx, requests)
	if err != nil {
		fail("%v", err)
	}
	for _, request := range refused {
		fail("no file of RBAC rules that a test installed allows this request of the operator: %+v", request)
	}
	files, err := rulesOfFiles()
	if err != nil {
		fail("%v", err)
		return code
	}
	usedIn := kindsIn(files, requests)
	for _, finding := range uncovered(files, usedIn, requests) {
		fail("%s", finding)
	}
	if !whole {
		return code
	}
	for _, rules := range files {
		for _, unused := range unusedPermissions(rules, usedIn, requests) {
			fail("%s grants a permission that no test needed: %s", rules.file, unused)
		}
	}
	return code
}

// kindsIn returns the files of opt-in kinds for each namespace in which the operator sent a request
// for an object of the kind.
func kindsIn(files []rulesOfFile, requests []cluster.AuditEvent) map[string]sets.Set[string] {
	usedIn := map[string]sets.Set[string]{}
	for _, request := range requests {
		for _, rules := range files {
			isOwn := func(p cluster.Permission) bool { return p.Group == request.Group && p.Resource == request.Resource }
			if request.Namespace == "" || !slices.ContainsFunc(rules.kinds, isOwn) {
				continue
			}
			if usedIn[request.Namespace] == nil {
				usedIn[request.Namespace] = sets.New[string]()
			}
			usedIn[request.Namespace].Insert(rules.file)
		}
	}
	return usedIn
}

// mayNeed reports whether a request may be one for which the file grants permissions. In a
// namespace, requests are for the kinds that have objects there. Several kinds may share a
// namespace, and then share its requests. Requests without a namespace fill caches that all kinds
// share.
func (r rulesOfFile) mayNeed(request cluster.AuditEvent, usedIn map[string]sets.Set[string]) bool {
	if request.Namespace == "" {
		return true
	}
	return r.holdsIn(request.Namespace) && (len(r.kinds) == 0 || usedIn[request.Namespace].Has(r.file))
}

// uncovered returns a finding for each kind of request in a namespace that the files of the
// operator and of the kinds in this namespace do not allow. The API server allowed the request,
// because a file of another kind does.
func uncovered(files []rulesOfFile, usedIn map[string]sets.Set[string], requests []cluster.AuditEvent) []string {
	findings := sets.New[string]()
	for _, request := range requests {
		if request.Namespace == "" || request.Resource == "" || request.ImpersonatedUser != "" || request.Code == http.StatusForbidden {
			continue
		}
		for _, variant := range []bool{false, true} { // For all namespaces, and for some.
			allowed, own := false, sets.New[string]()
			for _, rules := range files {
				if strings.HasPrefix(rules.file, namespacedDir) != variant || !rules.mayNeed(request, usedIn) {
					continue
				}
				own.Insert(rules.file)
				allowed = allowed || slices.ContainsFunc(rules.granted, func(p cluster.Permission) bool { return p.IsUsedBy(request) })
			}
			onlyForCluster := slices.Contains(clusterOnly, cluster.Permission{Group: request.Group, Resource: request.Resource})
			if !allowed && (!variant || !onlyForCluster) {
				findings.Insert(fmt.Sprintf("no rule of %s allows a request of the operator for its kinds: %s",
					strings.Join(sets.List(own), ", "), cluster.Permission{Group: request.Group, Resource: request.Resource, Verb: request.Verb}))
			}
		}
	}
	return sets.List(findings)
}

// clusterOnly are the resources that the operator uses only together with a cluster-scoped
// resource. With --namespaces, it may not.
var clusterOnly = []cluster.Permission{
	{Group: demov1alpha1.GroupName, Resource: "demoapps"},
	{Group: demov1alpha1.GroupName, Resource: "demoappclusters"},
	{Group: "gateway.networking.k8s.io", Resource: "httproutes"},
	{Group: "networking.k8s.io", Resource: "ingresses"},
}

// refusedByRules returns the forbidden requests that RBAC refused. It asks the authorizer again,
// because admission also answers Forbidden, for example for a quota or a terminating namespace.
func refusedByRules(ctx context.Context, requests []cluster.AuditEvent) ([]cluster.AuditEvent, error) {
	var refused []cluster.AuditEvent
	for _, request := range requests {
		optIn := slices.Contains(optInGroups, request.Group)
		if request.Code != http.StatusForbidden {
			continue
		}
		verbs := []string{request.Verb}
		if request.Verb == "patch" && request.Subresource == "" && request.Resource != "persistentvolumeclaims" && !optIn {
			// Server-side apply may also create the object. Volume claims are patched by UID only,
			// so they exist. An owner of an opt-in kind exists as well.
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

// rulesOfFiles returns the rules of all files.
func rulesOfFiles() ([]rulesOfFile, error) {
	everywhere := func(string) bool { return true }
	inAudit := func(namespace string) bool { return namespace == apps.AuditNamespace }
	inOwn := func(namespace string) bool { return namespace == cluster.OperatorNamespace }
	watched := func(namespace string) bool { return !inAudit(namespace) && !inOwn(namespace) }
	files := []rulesOfFile{
		{file: rulesFile, holdsIn: everywhere},
		{file: namespacedDir + "operator.yaml", holdsIn: inOwn},
		{file: namespacedDir + "audit.yaml", holdsIn: inAudit},
		{file: namespacedDir + "watched.yaml", holdsIn: watched},
	}
	for _, pattern := range []string{kindRules, namespacedKindRules} {
		paths, err := filepath.Glob(filepath.Join(shared.Root(), pattern))
		if err != nil {
			return nil, fmt.Errorf("read the rules: %w", err)
		}
		for _, path := range paths {
			file, err := filepath.Rel(shared.Root(), path)
			if err != nil {
				return nil, fmt.Errorf("read the rules: %w", err)
			}
			files = append(files, rulesOfFile{file: file, holdsIn: watched})
		}
	}
	for i := range files {
		granted, err := shared.ReadPermissions(files[i].file)
		if err != nil {
			return nil, err
		}
		files[i].granted = granted
		for _, p := range granted {
			if resource, ok := strings.CutSuffix(p.Resource, "/status"); ok && p.Group != demov1alpha1.GroupName {
				files[i].kinds = append(files[i].kinds, cluster.Permission{Group: p.Group, Resource: resource})
			}
		}
	}
	return files, nil
}

// isRarelyUsed reports whether a test run may leave a permission unused. The operator patches an
// event only after two equal events about one version of an object. Events about the lease follow
// changes of the watches file, which the tests of package watches make. Audit records are read when
// a deletion is tried again, and deleted when they expire, which the tests of package lifecycle
// make.
func (r rulesOfFile) isRarelyUsed(p cluster.Permission) bool {
	switch r.file {
	case namespacedDir + "operator.yaml":
		return p.Resource == "events"
	case namespacedDir + "audit.yaml":
		return p.Verb == "get" || p.Verb == "delete"
	default:
		return p.Resource == "events" && p.Verb == "patch"
	}
}

// unusedPermissions returns the permissions of a file that no request needed.
func unusedPermissions(rules rulesOfFile, usedIn map[string]sets.Set[string], requests []cluster.AuditEvent) []cluster.Permission {
	return slices.DeleteFunc(slices.Clone(rules.granted), func(p cluster.Permission) bool {
		return rules.isRarelyUsed(p) || slices.ContainsFunc(requests, func(request cluster.AuditEvent) bool {
			return rules.mayNeed(request, usedIn) && p.IsUsedBy(request)
		})
	})
}
