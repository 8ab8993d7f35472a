// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package plugin

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/expect"
)

// user is a ServiceAccount with permissions in one namespace.
type user struct{ namespace, kubeconfig string }

// newUser returns a user who may do the rules, given as "verbs resources.group".
func newUser(t *testing.T, namespace, name string, rules ...string) user {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	role := &rbacv1.Role{ObjectMeta: meta}
	for _, rule := range rules {
		verbs, resource, _ := strings.Cut(rule, " ")
		resource, group, _ := strings.Cut(resource, ".")
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			Verbs: strings.Split(verbs, ","), APIGroups: []string{group}, Resources: []string{resource},
		})
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	_, err := shared.Client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	expect.NoError(t, err)
	_, err = shared.Client.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{})
	expect.NoError(t, err)
	_, err = shared.Client.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{})
	expect.NoError(t, err)
	u := user{namespace, filepath.Join(t.TempDir(), "kubeconfig")}
	expect.NoError(t, shared.WriteServiceAccountKubeconfig(t.Context(), namespace, name, u.kubeconfig))
	return u
}

// run runs a command of the plugin as the user.
func (u user) run(t *testing.T, args ...string) answer {
	t.Helper()
	return execute(t, u.kubeconfig, u.namespace, args...)
}

// must runs a command that has to end with an exit code.
func (u user) must(t *testing.T, code int, args ...string) answer {
	t.Helper()
	got := u.run(t, args...)
	if got.code != code {
		t.Fatalf("%s: exit code %d, want %d:\n%s%s", strings.Join(args, " "), got.code, code, got.out, got.errors)
	}
	return got
}

// TestRequests suspends, resumes, retries and reconciles a release and a plain object, as a user
// who may edit both and read nothing else.
func TestRequests(t *testing.T) {
	t.Parallel()
	namespace := shared.Namespace(t)
	editor := newUser(t, namespace, "editor", "get,list,watch,patch memcacheds.cache.my.domain", "get,list,watch,patch appconfigs.config.example.com")
	reader := newUser(t, namespace, "reader", "get,list,watch memcacheds.cache.my.domain")
	apply(t, namespace, memcached("0")+"\n---\n"+appconfig("conf"))

	editor.must(t, 0, "wait", "memcached/web", "appconfig/conf", "--timeout=2m")
	suspended := editor.must(t, 0, "suspend", "memcached/web", "appconfig/conf", "--reason=maintenance", "--yes", "--wait")
	expect.Contains(t, "suspend", suspended.out, "memcached.cache.my.domain/web suspended\n", "appconfig.config.example.com/conf suspended\n")
	expect.Contains(t, "status", editor.must(t, 0, "get", "-o", "json").out,
		"Nothing of the AppConfig is changed while annotation demo.example.com/paused is true: maintenance",
		"Nothing is installed, upgraded or repaired while annotation demo.example.com/paused is true: maintenance")

	editor.must(t, 0, "resume", "--all", "--yes", "--wait")
	retried := editor.must(t, 0, "retry", "memcached/web", "--yes", "--wait")
	expect.Contains(t, "retry", retried.errors, "Revision 2 is deployed")
	editor.must(t, 0, "reconcile", "appconfig/conf", "memcached/web", "--dry-run=server")
	editor.must(t, 0, "reconcile", "appconfig/conf", "--yes", "--wait")

	apply(t, namespace, strings.ReplaceAll(memcached("0"), "replicaCount", "noSuchValue"))
	refused := reader.must(t, 3, "suspend", "memcached/web", "--yes")
	expect.Contains(t, "refused", refused.errors, `cannot patch resource "memcacheds" in API group "cache.my.domain"`, "kubectl auth can-i --list -n "+namespace)
	mistyped := reader.must(t, 3, "status", "memcached/wob")
	expect.Contains(t, "mistyped", mistyped.errors, `did you mean "web"?`)
}

// TestEventsAndLogs reads the events of a tree, and the lines of one object from the operator's
// log.
func TestEventsAndLogs(t *testing.T) {
	t.Parallel()
	namespace := shared.Namespace(t)
	viewer := newUser(t, namespace, "viewer", "get,list,watch memcacheds.cache.my.domain", "get,list,watch events", "get,list deployments.apps",
		"get,list replicasets.apps", "get,list pods", "get,list services", "get,list serviceaccounts", "get,list secrets")
	apply(t, namespace, memcached("0"))
	viewer.must(t, 0, "wait", "memcached/web", "--timeout=2m")

	cluster.Eventually(t.Context(), t, "the event of the install", func(context.Context) (bool, error) {
		return strings.Contains(viewer.must(t, 0, "events", "memcached/web").out, "Memcached/web"), nil
	})
	file := filepath.Join(t.TempDir(), "operator.log")
	expect.NoError(t, os.WriteFile(file, []byte(operator.Log()), 0o600))
	lines := viewer.must(t, 0, "logs", "memcached/web", "-f", file)
	expect.Contains(t, "log", lines.out, "INFO  Event ", "event=Installed")
	refused := viewer.must(t, 3, "logs", "memcached/web")
	expect.Contains(t, "log of the pods", refused.errors, "cannot get resource \"deployments\"", "use -f FILE")
}

// TestOrphanAndAdopt lets a release go, which then belongs to the helm command, and takes it back
// with a new object.
func TestOrphanAndAdopt(t *testing.T) {
	t.Parallel()
	namespace := shared.Namespace(t)
	owner := newUser(t, namespace, "owner", "get,list,watch,patch,delete memcacheds.cache.my.domain", "get,list,patch secrets")
	apply(t, namespace, memcached("0"))
	owner.must(t, 0, "wait", "memcached/web", "--timeout=2m")
	deployments := shared.Client.AppsV1().Deployments(namespace)
	list, err := deployments.List(t.Context(), metav1.ListOptions{})
	expect.NoError(t, err)
	expect.Equal(t, "Deployments", 1, len(list.Items))
	before := list.Items[0]

	orphaned := owner.must(t, 0, "orphan", "memcached/web", "--yes")
	expect.Contains(t, "orphan", orphaned.out, "memcached.cache.my.domain/web deleted; release web and its objects stay\n")
	memcacheds := shared.Dynamic.Resource(schema.GroupVersionResource{Group: "cache.my.domain", Version: "v1", Resource: "memcacheds"}).Namespace(namespace)
	cluster.Eventually(t.Context(), t, "deletion of the object", func(ctx context.Context) (bool, error) {
		_, err := memcacheds.Get(ctx, "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	after, err := deployments.Get(t.Context(), before.Name, metav1.GetOptions{})
	expect.NoError(t, err)
	expect.Equal(t, "UID of the Deployment", before.UID, after.UID)
	expect.Equal(t, "owners of the Deployment", 0, len(after.OwnerReferences))

	apply(t, namespace, memcached("0"))
	owner.must(t, 2, "wait", "memcached/web", "--timeout=2m")
	adopted := owner.must(t, 0, "adopt", "memcached/web", "--yes", "--wait")
	expect.Contains(t, "adopt", adopted.out, "requested to adopt release web\n")
	after, err = deployments.Get(t.Context(), before.Name, metav1.GetOptions{})
	expect.NoError(t, err)
	expect.Equal(t, "UID of the adopted Deployment", before.UID, after.UID)
	expect.Equal(t, "owners of the adopted Deployment", 1, len(after.OwnerReferences))
}
