// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// victim is a namespace in which the tenant has no permissions. The namespace has a ConfigMap, a
// Deployment and a Secret "web".
type victim struct {
	*apps.Namespace
	t        *testing.T
	begin    time.Time
	contents map[string]any
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	v := &victim{Namespace: newNamespace(t), t: t}
	for _, kind := range []string{"ConfigMap", "Deployment", "Secret"} {
		createForeign(t, v.Namespace, kind)
	}
	cluster.Eventually(t.Context(), t, "the root certificates", func(ctx context.Context) (bool, error) {
		_, err := shared.Client.CoreV1().ConfigMaps(v.Name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil, err
	})
	v.begin, v.contents = time.Now(), v.Contents()
	return v
}

// assertUntouched asserts that the namespace has not changed, and that the operator has sent no
// request for it.
func (v *victim) assertUntouched() {
	v.t.Helper()
	if diff := cmp.Diff(v.contents, v.Contents()); diff != "" {
		v.t.Errorf("the other namespace changed (-before +after):\n%s", diff)
	}
	if requests := v.Requests(v.begin); len(requests) > 0 {
		v.t.Errorf("the operator sent requests to the other namespace:\n%s", apps.Describe(requests))
	}
	if _, err := shared.Client.CoreV1().Namespaces().Get(v.t.Context(), v.forgedNamespace(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		v.t.Errorf("the forged namespace exists (%v)", err)
	}
}

// forgedNamespace is the name of a namespace that only a forged manifest has.
func (v *victim) forgedNamespace() string { return "intruder-" + v.Name }

// dropForgedNamespace removes the namespace that a successful attack creates.
func (v *victim) dropForgedNamespace() {
	v.t.Cleanup(func() {
		err := shared.Client.CoreV1().Namespaces().Delete(context.WithoutCancel(v.t.Context()), v.forgedNamespace(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			v.t.Error(err)
		}
	})
}

// forgery is an object that a tenant adds to a release record.
type forgery struct {
	name string
	// manifest is the object, for the victim's namespace and the tenant's.
	manifest func(victim *victim, own *apps.Namespace) string
}

// privilegedDeployment and the other forgeries have the name "intruder", unless they replace an
// object of the victim.
var (
	privilegedDeployment = forgery{"privileged Deployment elsewhere", func(v *victim, _ *apps.Namespace) string {
		return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: intruder, namespace: %s}
spec:
  replicas: 0
  selector: {matchLabels: {app: intruder}}
  template:
    metadata: {labels: {app: intruder}}
    spec:
      hostPID: true
      containers:
        - {name: main, image: "intruder:1", securityContext: {privileged: true}}
`, v.Name)
	}}
	foreignConfigMap = forgery{"ConfigMap of others", func(v *victim, _ *apps.Namespace) string {
		return configMapManifest("web", v.Name)
	}}
	listElsewhere = forgery{"List of objects elsewhere", func(v *victim, _ *apps.Namespace) string {
		return fmt.Sprintf(`apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: intruder, namespace: %s}, data: {intruder: data}}
`, v.Name)
	}}
	forgedNamespace = forgery{"Namespace", func(v *victim, _ *apps.Namespace) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", v.forgedNamespace())
	}}
	ownConfigMap = forgery{"ConfigMap in the own namespace", func(_ *victim, own *apps.Namespace) string {
		return configMapManifest("intruder", own.Name)
	}}

	forgeries = []forgery{privilegedDeployment, foreignConfigMap, listElsewhere, forgedNamespace, ownConfigMap}
	// mixed are the forgeries that neither RBAC nor existing objects keep the operator from
	// applying.
	mixed = []forgery{privilegedDeployment, listElsewhere, ownConfigMap}
)

func configMapManifest(name, namespace string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {intruder: data}\n", name, namespace)
}

// addTo adds the objects of forgeries to the manifest of a release record.
func addTo(content map[string]any, v *victim, own *apps.Namespace, added ...forgery) {
	var manifest strings.Builder
	manifest.WriteString(content["manifest"].(string))
	for _, forged := range added {
		manifest.WriteString("---\n# Source: demo-app/templates/intruder.yaml\n" + forged.manifest(v, own))
	}
	content["manifest"] = manifest.String()
}

// assertNothingForged asserts that the tenant's namespace has no object "intruder".
func assertNothingForged(t *testing.T, ns *apps.Namespace) {
	t.Helper()
	for kind := range ns.Objects("intruder").All() {
		t.Errorf("the forged %s exists", kind)
	}
}

// createNeighbor creates the ConfigMap "neighbor", which belongs to no release, and returns its
// contents.
func createNeighbor(t *testing.T, ns *apps.Namespace, tenant *apps.Tenant, change func(*corev1.ConfigMap)) map[string]any {
	t.Helper()
	neighbor := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "neighbor"}, Data: map[string]string{"some": "data"}}
	if change != nil {
		change(neighbor)
	}
	if _, err := tenant.Client.CoreV1().ConfigMaps(ns.Name).Create(t.Context(), neighbor, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return contentsNamed(ns, "neighbor")
}

// contentsNamed returns the contents of the objects with a name, and of the release records of that
// name.
func contentsNamed(ns *apps.Namespace, name string) map[string]any {
	contents := ns.Contents()
	maps.DeleteFunc(contents, func(key string, _ any) bool {
		return !strings.HasSuffix(key, "/"+name) && !strings.Contains(key, "/sh.helm.release.v1."+name+".v")
	})
	return contents
}

func assertSameContents(t *testing.T, before, after map[string]any) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("objects changed (-before +after):\n%s", diff)
	}
}
