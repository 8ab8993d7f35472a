// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package variants

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// The generated variants of the RBAC.
const (
	namespacedDir    = "artifacts/rbac/namespaced/"
	impersonatingDir = "artifacts/rbac/impersonating/"
)

// variant is an operator with a variant of the RBAC. Its namespace and the namespace of its audit
// records belong to the test, so that the ClusterRole of other tests does not hold.
type variant struct {
	t                *testing.T
	namespace, audit string
	operator         *cluster.Operator
}

func newVariant(t *testing.T) *variant {
	t.Helper()
	return &variant{t: t, namespace: shared.Namespace(t), audit: shared.Namespace(t)}
}

// apply applies a generated file to a namespace. The namespaces of the variant replace the
// namespaces in the file, and names of the test replace the names of cluster-scoped objects.
func (v *variant) apply(namespace, file string) {
	v.t.Helper()
	objects, err := shared.Objects(file)
	if err != nil {
		v.t.Fatal(err)
	}
	own := map[string]string{cluster.OperatorNamespace: v.namespace, apps.AuditNamespace: v.audit}
	for _, object := range objects {
		if object.GetKind() == "Namespace" {
			continue
		}
		if replacement, ok := own[object.GetNamespace()]; ok {
			object.SetNamespace(replacement)
		}
		if strings.HasPrefix(object.GetKind(), "ClusterRole") {
			v.rename(object)
		}
		subjects, _, err := unstructured.NestedSlice(object.Object, "subjects")
		if err != nil {
			v.t.Fatal(err)
		}
		for _, item := range subjects {
			subject := item.(map[string]any)
			if subject["namespace"] == cluster.OperatorNamespace {
				subject["namespace"] = v.namespace
			} else {
				subject["namespace"] = namespace
			}
		}
		if len(subjects) > 0 {
			object.Object["subjects"] = subjects
		}
		if err := shared.ApplyObject(v.t.Context(), namespace, object); err != nil {
			v.t.Fatal(err)
		}
	}
}

// rename gives a ClusterRole or its binding a name of the test. The end of the test deletes the
// object.
func (v *variant) rename(object *unstructured.Unstructured) {
	name := v.namespace + "-" + object.GetName()
	object.SetName(name)
	if object.GetKind() == "ClusterRoleBinding" {
		object.Object["roleRef"].(map[string]any)["name"] = name
	}
	v.t.Cleanup(func() {
		ctx, clusterRoles := context.WithoutCancel(v.t.Context()), shared.Client.RbacV1()
		remove := clusterRoles.ClusterRoles().Delete
		if object.GetKind() == "ClusterRoleBinding" {
			remove = clusterRoles.ClusterRoleBindings().Delete
		}
		if err := remove(ctx, name, metav1.DeleteOptions{}); err != nil {
			v.t.Error(err)
		}
	})
}

func (v *variant) start(args ...string) {
	v.t.Helper()
	v.operator = cluster.StartOperatorAs(v.t.Context(), v.t, shared, v.namespace, cluster.OperatorServiceAccount, args...)
}

// sent returns the requests of the variant's operator, when it is silent.
func (v *variant) sent() []cluster.AuditEvent {
	v.t.Helper()
	byVariant := cluster.ByServiceAccount(v.namespace, cluster.OperatorServiceAccount)
	atWork := func(e cluster.AuditEvent) bool {
		return byVariant(e) && e.Verb != "watch" && e.Resource != "leases" && e.Code != http.StatusForbidden
	}
	if err := shared.AwaitAuditQuiet(v.t.Context(), 3*time.Second, atWork); err != nil {
		v.t.Fatal(err)
	}
	requests, err := shared.AuditRequests(time.Time{}, byVariant)
	if err != nil {
		v.t.Fatal(err)
	}
	return requests
}

// assertRefused asserts that RBAC refused the operator exactly these resources, each verb at most
// so often.
func (v *variant) assertRefused(requests []cluster.AuditEvent, most map[string]int) {
	v.t.Helper()
	counts := map[string]int{}
	for _, request := range requests {
		if request.Code == http.StatusForbidden {
			counts[request.Verb+" "+request.Resource]++
		}
	}
	for request, count := range counts {
		if _, resource, _ := strings.Cut(request, " "); count > most[resource] {
			v.t.Errorf("the API server refused %d times to %s, at most %d are allowed", count, request, most[resource])
		}
	}
	v.t.Logf("refused: %v", counts)
}

// assertUsed asserts that the operator needed all permissions of a file, in a namespace. as is the
// account that the requests are sent as; empty for the operator's own.
func (v *variant) assertUsed(file, namespace, as string, requests []cluster.AuditEvent, except ...string) {
	v.t.Helper()
	granted, err := shared.ReadPermissions(file)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, permission := range granted {
		needed := func(request cluster.AuditEvent) bool {
			inNamespace := namespace == metav1.NamespaceAll || request.Namespace == namespace
			if permission.Verb == "impersonate" {
				return inNamespace && strings.HasSuffix(request.ImpersonatedUser, ":"+permission.Name)
			}
			return inNamespace && request.ImpersonatedUser == as && permission.IsUsedBy(request)
		}
		excepted := slices.Contains(except, permission.Verb) || slices.Contains(except, permission.String())
		if !excepted && !slices.ContainsFunc(requests, needed) {
			v.t.Errorf("%s grants a permission that the test did not need in namespace %q: %s", file, namespace, permission)
		}
	}
}

// TestNamespacedRoles runs the operator without any ClusterRole: it installs, upgrades, restores
// and deletes DemoApps.
func TestNamespacedRoles(t *testing.T) {
	first, second, other := apps.NewExclusive(t, shared), apps.NewExclusive(t, shared), apps.NewExclusive(t, shared)
	v := newVariant(t)
	v.apply(v.namespace, namespacedDir+"operator.yaml")
	v.apply(v.audit, namespacedDir+"audit.yaml")
	for _, ns := range []*apps.Namespace{first, second} {
		v.apply(ns.Name, namespacedDir+"watched.yaml")
	}
	v.start("--namespaces="+first.Name+","+second.Name, "--audit-namespace="+v.audit, "--controllers=demoapp,demoappcluster")
	awaitWaiting(t, v.operator, map[string]int{"demoapp": 0, "demoappcluster": 1})
	other.Create(apps.Named("web"))

	for _, ns := range []*apps.Namespace{first, second} {
		ns.Create(apps.Named("web"))
		ns.AwaitReady("web")
		upgraded := ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Upgraded" })
		ns.Await("web", "upgraded", func(app *v1alpha1.DemoApp) bool {
			return apps.IsReady(app) && app.Status.ObservedGeneration >= upgraded.Generation
		})
		patchConfigMap(t, ns, "web", `{"data": {"index.html": "Changed by another client"}}`)
		ns.Await("web", "corrected", func(app *v1alpha1.DemoApp) bool {
			return apps.IsReady(app) && app.Status.LastUpgradeReason == releasev1alpha1.UpgradeReasonDriftDetected
		})
		ns.Delete("web")
		ns.AwaitGone("web")
		assertAudited(t, v.audit, ns.Name)
	}

	requests := v.sent()
	// The Helm engine asks once for the definitions and the API services.
	v.assertRefused(requests, map[string]int{"customresourcedefinitions": 1, "apiservices": 1})
	v.assertInside(requests, first.Name, second.Name)
	v.assertUsed(namespacedDir+"operator.yaml", v.namespace, "", requests, "create events.events.k8s.io", "patch events.events.k8s.io")
	// Only old records, records of the same name, and records of an uninstall that left objects
	// need the remaining verbs.
	v.assertUsed(namespacedDir+"audit.yaml", v.audit, "", requests, "get", "delete", "patch")
	for _, ns := range []*apps.Namespace{first, second} {
		// Pods are listed only for a release that is not healthy for some seconds, and events only for a
		// StatefulSet, DaemonSet or Job, as TestNamespacedRolesOfKinds does. A DemoApp has none.
		v.assertUsed(namespacedDir+"watched.yaml", ns.Name, "", requests, append(notNeededByLife(), "list pods", "list events")...)
	}
	for line, want := range map[string]int{"Waiting for permissions": 1, "Cannot watch for changes to what the API server serves": 2} {
		if said := strings.Count(v.operator.Log(), line); said != want {
			t.Errorf("the log has %d lines with %q, want %d", said, line, want)
		}
	}
	if app, err := other.Demo.Get(t.Context(), "web", metav1.GetOptions{}); err != nil || len(app.Finalizers) > 0 || len(app.Status.Conditions) > 0 {
		t.Errorf("the object in the other namespace was changed: %+v (%v)", app, err)
	}
}

// TestStartWithoutARule starts a replica whose Role lacks a verb. The replica is not ready, does
// not take the lease and names the permission. It starts when the Role is complete.
func TestStartWithoutARule(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	v := newVariant(t)
	v.apply(v.namespace, namespacedDir+"operator.yaml")
	v.apply(v.audit, namespacedDir+"audit.yaml")
	v.apply(ns.Name, namespacedDir+"watched.yaml")
	roles := shared.Client.RbacV1().Roles(ns.Name)
	role, err := roles.Get(t.Context(), cluster.OperatorServiceAccount, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, rule := range role.Rules {
		if slices.Contains(rule.Resources, "secrets") {
			role.Rules[i].Verbs = slices.DeleteFunc(rule.Verbs, func(verb string) bool { return verb == "create" })
		}
	}
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	v.operator = cluster.Launch{Namespace: v.namespace, Account: cluster.OperatorServiceAccount, Args: []string{
		"--namespaces=" + ns.Name, "--audit-namespace=" + v.audit, "--controllers=demoapp",
	}}.Start(t.Context(), t, shared)
	missing := "create secrets in namespace " + ns.Name

	cluster.Eventually(t.Context(), t, "the replica names the permission", func(ctx context.Context) (bool, error) {
		metrics, err := v.operator.Metrics(ctx)
		return strings.Contains(v.operator.Log(), missing) && strings.Contains(metrics,
			fmt.Sprintf("controller_permission_missing{kind=\"demoapp\",resource=\"secrets\",resource_namespace=%q,verb=\"create\"} 1\n", ns.Name)), err
	})
	if code := readiness(t, v.operator); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d", code)
	}
	leases := shared.Client.CoordinationV1().Leases(v.namespace)
	if list, err := leases.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("the replica has a lease: %v (%v)", list.Items, err)
	}

	v.apply(ns.Name, namespacedDir+"watched.yaml")

	v.operator.AwaitReady(t.Context(), t)
	ns.Create(apps.WithoutPods("web"))
	ns.AwaitReady("web")
	v.assertRefused(v.sent(), map[string]int{"customresourcedefinitions": 1, "apiservices": 1})
}

// notNeededByLife returns the permissions of a watched namespace that the life of a DemoApp in
// TestNamespacedRoles does not need: they are for foreign objects with the same name, drift
// policies, keys and repeated events.
func notNeededByLife() []string {
	return []string{
		"get", "update configmaps", "update services", "update deployments.apps", "patch events.events.k8s.io",
	}
}

// assertInside asserts that all requests are for these namespaces and the namespaces of the
// variant, except refused requests, discovery, and the review of the own permissions.
func (v *variant) assertInside(requests []cluster.AuditEvent, namespaces ...string) {
	v.t.Helper()
	namespaces = append(namespaces, v.namespace, v.audit)
	outside := slices.DeleteFunc(slices.Clone(requests), func(request cluster.AuditEvent) bool {
		return request.Resource == "" || request.Group == "authorization.k8s.io" || request.Code == http.StatusForbidden ||
			slices.Contains(namespaces, request.Namespace)
	})
	if len(outside) > 0 {
		v.t.Errorf("the operator reached other namespaces:\n%s", apps.Describe(outside))
	}
}

// assertAudited asserts that the deletion of a DemoApp left a record.
func assertAudited(t *testing.T, audit, source string) {
	t.Helper()
	records, err := shared.Client.CoreV1().ConfigMaps(audit).List(t.Context(),
		metav1.ListOptions{LabelSelector: v1alpha1.LabelSourceNamespace + "=" + source})
	if err != nil || len(records.Items) != 1 {
		t.Errorf("%d audit records of %s (%v), want one", len(records.Items), source, err)
	}
}

// TestNamespacedRolesWithoutAudit: if the Role in the audit namespace is removed, DemoApps run on.
// A deletion waits, and says what to grant.
func TestNamespacedRolesWithoutAudit(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	v := newVariant(t)
	v.apply(v.namespace, namespacedDir+"operator.yaml")
	v.apply(v.audit, namespacedDir+"audit.yaml")
	v.apply(ns.Name, namespacedDir+"watched.yaml")
	v.start("--namespaces="+ns.Name, "--audit-namespace="+v.audit, "--controllers=demoapp")
	ns.Create(apps.WithoutPods("web"))
	ns.AwaitReady("web")
	role := cluster.OperatorServiceAccount + "-audit"
	if err := shared.Client.RbacV1().RoleBindings(v.audit).Delete(t.Context(), role, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	ns.Delete("web")

	waiting := ns.Await("web", "waits", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, apimeta.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAuditFailed)
	})
	message := apps.Condition(waiting, apimeta.ConditionReady).Message
	if want := `cannot create resource "configmaps" in API group "" in the namespace "` + v.audit + `"`; !strings.Contains(message, want) {
		t.Errorf("message is %q, want it to contain %q", message, want)
	}
	v.apply(v.audit, namespacedDir+"audit.yaml")
	ns.AwaitGone("web")
	assertAudited(t, v.audit, ns.Name)
}

// memcacheds is the kind of the hybrid example, whose releases belong to ServiceAccounts here.
var memcacheds = schema.GroupVersionResource{Group: "cache.my.domain", Version: "v1", Resource: "memcacheds"}

// chartResources are the resources of the objects of a Memcached that always exist. They have one name.
var chartResources = []schema.GroupVersionResource{
	{Version: "v1", Resource: "serviceaccounts"}, {Version: "v1", Resource: "services"}, {Group: "apps", Version: "v1", Resource: "deployments"},
}

// TestImpersonatingOperator runs an operator that writes no releases itself. The tenant's
// ServiceAccount writes their objects and records. Both have exactly the permissions that they
// need.
func TestImpersonatingOperator(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	if err := shared.InstallCRDs(t.Context(), "artifacts/kinds/memcached/crd.yaml"); err != nil {
		t.Fatal(err)
	}
	v := newVariant(t)
	for _, file := range []string{"operator.yaml", "memcached.yaml"} {
		v.apply(v.namespace, impersonatingDir+file)
	}
	v.apply(ns.Name, impersonatingDir+"memcached-deployer.yaml")
	flags := []string{"--controllers=watches", "--watches-file=" + impersonatingFile(t)}
	v.start(flags...)

	client := shared.Dynamic.Resource(memcacheds).Namespace(ns.Name)
	change := func(spec string) {
		t.Helper()
		if _, err := client.Patch(t.Context(), "cache", types.MergePatchType, fmt.Appendf(nil, `{"spec": %s}`, spec), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitMemcached(t, ns.Name)
	}
	createMemcachedAmidOthers(t, ns.Name)
	change(`{"autoscaling": {"enabled": true}, "ingress": {"enabled": true, "hosts": [{"host": "cache.example.com", "paths": [{"path": "/", "pathType": "Prefix"}]}]}}`)
	change(`{"autoscaling": {"enabled": true, "maxReplicas": 7}, "podAnnotations": {"changed": "1"}}`)
	change(`{"autoscaling": {"enabled": false}, "ingress": {"enabled": false}}`)
	v.operator.Stop() // The records are read again.
	changeByOthers(t, ns.Name)
	v.start(flags...)
	awaitRestored(t, ns.Name)
	if err := client.Delete(t.Context(), "cache", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitMemcachedIsGone(t, ns.Name)
	v.assertRefused(v.sent(), nil)
	vanishing := deleteNamespaceOfMemcached(t, v)

	requests := v.sent()
	assertWritersOf(t, requests, deployerIn(ns.Name), deployerIn(vanishing))
	// Pods are listed only for a release that is not healthy for some seconds, and events only for a
	// StatefulSet, DaemonSet or Job. The chart of a Memcached has none.
	v.assertUsed(impersonatingDir+"operator.yaml", metav1.NamespaceAll, "", requests,
		"patch events.events.k8s.io", "create events.events.k8s.io", "list pods", "list events")
	v.assertUsed(impersonatingDir+"memcached.yaml", metav1.NamespaceAll, "", requests)
	v.assertUsed(impersonatingDir+"memcached-deployer.yaml", ns.Name, deployerIn(ns.Name), requests)
}

// deleteNamespaceOfMemcached deletes a namespace with a Memcached whose ServiceAccount has lost its
// permissions, as they are lost when the binding is deleted first. The Memcached does not hold the
// namespace.
func deleteNamespaceOfMemcached(t *testing.T, v *variant) (namespace string) {
	t.Helper()
	namespace = shared.Namespace(t)
	v.apply(namespace, impersonatingDir+"memcached-deployer.yaml")
	createMemcached(t, namespace)
	awaitMemcached(t, namespace)
	if err := shared.Client.RbacV1().RoleBindings(namespace).Delete(t.Context(), "demoapp-deployer", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := shared.Client.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitMemcachedIsGone(t, namespace)
	return namespace
}

// deployerIn is the user name of the tenant's ServiceAccount.
func deployerIn(namespace string) string {
	return "system:serviceaccount:" + namespace + ":demoapp-deployer"
}

// changeByOthers changes a label of objects of the Memcached.
func changeByOthers(t *testing.T, namespace string) {
	t.Helper()
	for _, resource := range chartResources {
		_, err := shared.Dynamic.Resource(resource).Namespace(namespace).Patch(t.Context(), "cache-memcached", types.MergePatchType,
			[]byte(`{"metadata": {"labels": {"app.kubernetes.io/name": "theirs"}}}`), metav1.PatchOptions{FieldManager: "theirs"})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// awaitRestored waits until the objects have their labels again.
func awaitRestored(t *testing.T, namespace string) {
	t.Helper()
	for _, resource := range chartResources {
		cluster.Eventually(t.Context(), t, resource.Resource+" are restored", func(ctx context.Context) (bool, error) {
			live, err := shared.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, "cache-memcached", metav1.GetOptions{})
			return err == nil && live.GetLabels()["app.kubernetes.io/name"] == "memcached", err
		})
	}
}

// createMemcachedAmidOthers creates a Memcached whose objects exist already and have other owners,
// and removes them one by one.
func createMemcachedAmidOthers(t *testing.T, namespace string) {
	t.Helper()
	client := shared.Dynamic.Resource(memcacheds).Namespace(namespace)
	theirs := filepath.Join(t.TempDir(), "theirs.yaml")
	if err := os.WriteFile(theirs, []byte(objectsInTheWay), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := shared.ApplyFiles(t.Context(), namespace, theirs); err != nil {
		t.Fatal(err)
	}
	createMemcached(t, namespace)
	for i, kind := range []string{"ServiceAccount", "Service", "Deployment"} {
		awaitMemcachedIs(t, namespace, "False", kind+" ")
		if err := shared.Dynamic.Resource(chartResources[i]).Namespace(namespace).Delete(t.Context(), "cache-memcached", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		requested := fmt.Appendf(nil, `{"metadata": {"annotations": {"demo.example.com/requested-at": %q}}}`, kind)
		if _, err := client.Patch(t.Context(), "cache", types.MergePatchType, requested, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// createMemcached creates a Memcached without pods.
func createMemcached(t *testing.T, namespace string) {
	t.Helper()
	_, err := shared.Dynamic.Resource(memcacheds).Namespace(namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "metadata": map[string]any{"name": "cache"},
		"spec": map[string]any{"replicaCount": int64(0)},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// impersonatingFile writes the watches file of the hybrid example, with a ServiceAccount and a
// short history.
func impersonatingFile(t *testing.T) string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(shared.Root(), "artifacts", "kinds", "memcached", "watches.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "watches.yaml")
	if err := os.WriteFile(path, append(file, "  serviceAccountName: demoapp-deployer\n  maxHistory: 2\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// objectsInTheWay have the names of objects of the chart. The operator looks whose they are, and
// leaves them alone.
const objectsInTheWay = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: cache-memcached}
---
apiVersion: v1
kind: Service
metadata: {name: cache-memcached}
spec: {ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cache-memcached}
spec:
  replicas: 0
  selector: {matchLabels: {app: theirs}}
  template: {metadata: {labels: {app: theirs}}, spec: {containers: [{name: theirs, image: theirs}]}}
`

// awaitMemcached waits until the Memcached is ready at its newest spec.
func awaitMemcached(t *testing.T, namespace string) {
	t.Helper()
	awaitMemcachedIs(t, namespace, "True", "")
}

// awaitMemcachedIsGone waits until the Memcached is deleted.
func awaitMemcachedIsGone(t *testing.T, namespace string) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "the Memcached is gone", func(ctx context.Context) (bool, error) {
		_, err := shared.Dynamic.Resource(memcacheds).Namespace(namespace).Get(ctx, "cache", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// awaitMemcachedIs waits until the condition Ready has this status at the newest spec, and a
// message with this text.
func awaitMemcachedIs(t *testing.T, namespace, status, text string) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "Ready of the Memcached is "+status, func(ctx context.Context) (bool, error) {
		live, err := shared.Dynamic.Resource(memcacheds).Namespace(namespace).Get(ctx, "cache", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
		for _, item := range conditions {
			condition, _ := item.(map[string]any)
			if condition["type"] == apimeta.ConditionReady && condition["status"] == status && condition["observedGeneration"] == live.GetGeneration() {
				return strings.Contains(fmt.Sprint(condition["message"]), text), fmt.Errorf("condition is %v", condition)
			}
		}
		return false, errors.Join(err, fmt.Errorf("conditions are %v", conditions))
	})
}

// assertWritersOf asserts that the operator itself wrote only Memcacheds, events and its lease, and
// that these accounts wrote the rest.
func assertWritersOf(t *testing.T, requests []cluster.AuditEvent, deployers ...string) {
	t.Helper()
	reads, own := sets.New("get", "list", "watch"), sets.New("memcacheds", "events", "leases", "selfsubjectrulesreviews")
	wrong := slices.DeleteFunc(slices.Clone(requests), func(request cluster.AuditEvent) bool {
		if own.Has(request.Resource) {
			return request.ImpersonatedUser == ""
		}
		return reads.Has(request.Verb) && request.ImpersonatedUser == "" || slices.Contains(deployers, request.ImpersonatedUser)
	})
	if len(wrong) > 0 {
		t.Errorf("requests as the wrong account:\n%s", apps.Describe(wrong))
	}
}
