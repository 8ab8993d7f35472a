// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// adoptAnnotation makes a DemoApp adopt a Helm release of another user.
const adoptAnnotation = "demo.example.com/adopt-release"

// helmMarks puts Helm's marks of the release "web" on an object.
func helmMarks(object *corev1.ConfigMap, namespace string) {
	object.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/name": "web"}
	object.Annotations = map[string]string{"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": namespace}
}

// TestForgedMarksAreNoDrift puts the marks of a release on objects that the release does not have,
// in its namespace and in another one. The operator does not correct, adopt or delete them.
func TestForgedMarksAreNoDrift(t *testing.T) {
	t.Parallel()
	ns, other := newNamespace(t), newNamespace(t)
	tenant, accomplice := ns.AddTenant("demoapps"), other.AddTenant("demoapps")
	ns.Create(apps.WithoutPods("web"))
	app := ns.AwaitReady("web")
	ns.AwaitQuiet(quiet)
	neighbor := createNeighbor(t, ns, tenant, func(object *corev1.ConfigMap) { helmMarks(object, ns.Name) })
	elsewhere := createNeighbor(t, other, accomplice, func(object *corev1.ConfigMap) { helmMarks(object, ns.Name) })

	ns.AwaitQuiet(quiet)
	if versions := ns.Versions("web"); versions[len(versions)-1].App.ResourceVersion != app.ResourceVersion {
		t.Errorf("the status changed:\n%s", ns.ChangesSince("web", versions[0].Seen))
	}
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Second" })
	ns.AwaitReady("web")
	ns.Delete("web")
	ns.AwaitGone("web")

	assertNothingInstalled(t, ns, "web")
	assertSameContents(t, neighbor, contentsNamed(ns, "neighbor"))
	assertSameContents(t, elsewhere, contentsNamed(other, "neighbor"))
}

// otherRelease installs a Helm release "web" as an administrator, and returns its objects.
func otherRelease(t *testing.T, ns *apps.Namespace, chart string, args ...string) map[string]any {
	t.Helper()
	helm(t, ns, append([]string{"install", "web", chart}, args...)...)
	return contentsNamed(ns, "web")
}

// otherReleases are releases of another user with the name of a DemoApp.
var otherReleases = []struct {
	name    string
	install func(t *testing.T, ns *apps.Namespace) map[string]any
	// restarts says that its adoption changes pods, which waits for consent.
	restarts bool
}{
	{name: "another chart", install: func(t *testing.T, ns *apps.Namespace) map[string]any {
		t.Helper()
		return otherRelease(t, ns, writeChart(t, map[string]string{
			"configmap.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {some: data}\n",
			"service.yaml":   "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 81}]}\n",
		}))
	}},
	{name: "the same chart", restarts: true, install: func(t *testing.T, ns *apps.Namespace) map[string]any {
		t.Helper()
		return otherRelease(t, ns, filepath.Join(shared.Root(), "pkg", "helm", "charts", "demo-app"),
			"--set=apiKey=key-of-others", "--set=replicaCount=0")
	}},
}

// TestForeignReleaseBlocksInstall creates a DemoApp with the name of a Helm release.
func TestForeignReleaseBlocksInstall(t *testing.T) {
	t.Parallel()
	for _, release := range otherReleases {
		for _, isSuspended := range []bool{false, true} {
			name := release.name
			if isSuspended {
				name += " suspended"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ns := newNamespace(t)
				before := release.install(t, ns)
				ns.AddTenant("demoapps")
				app := apps.WithoutPods("web")
				app.Spec.Suspend = isSuspended
				ns.Create(app)
				if isSuspended {
					ns.Await("web", "suspended", func(app *v1alpha1.DemoApp) bool { return !apps.IsAbsent(app, releasev1alpha1.ConditionSuspended) })
				} else {
					ns.Await("web", "refused", isConflict)
				}
				ns.AwaitQuiet(quiet)
				assertSameContents(t, before, contentsNamed(ns, "web"))

				ns.Delete("web")
				ns.AwaitGone("web")
				assertSameContents(t, before, contentsNamed(ns, "web"))
				if status := helmJSON[helmRelease](t, ns, "status", "web"); status.Info.Status != "deployed" {
					t.Errorf("helm status: %+v", status)
				}

				helm(t, ns, "uninstall", "web")
				ns.Create(apps.WithoutPods("web"))
				ns.AwaitReady("web")
			})
		}
	}
}

// isHeldTakeover reports whether the takeover of a release waits for consent.
func isHeldTakeover(app *v1alpha1.DemoApp) bool {
	ready := meta.FindStatusCondition(app.Status.Conditions, apimeta.ConditionReady)
	return ready != nil && ready.Reason == releasev1alpha1.ReasonTakeoverHeld
}

// helmRelease is the output of helm status.
type helmRelease struct {
	Info struct {
		Status string `json:"status"`
	} `json:"info"`
}

// TestForeignReleaseIsAdopted allows the adoption with the annotation.
func TestForeignReleaseIsAdopted(t *testing.T) {
	t.Parallel()
	for _, release := range otherReleases {
		for _, later := range []bool{false, true} {
			name := release.name
			if later {
				name += " after a refusal"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ns := newNamespace(t)
				release.install(t, ns)
				ns.AddTenant("demoapps")
				app := apps.WithoutPods("web")
				if !later {
					app.Annotations = map[string]string{adoptAnnotation: "true"}
				}
				ns.Create(app)
				if later {
					ns.Await("web", "refused", isConflict)
					annotate(t, ns, "web", map[string]string{adoptAnnotation: "true"})
				}
				if release.restarts {
					ns.Await("web", "held", isHeldTakeover)
					annotate(t, ns, "web", map[string]string{"demo.example.com/requested-at": "now", "demo.example.com/force-at": "now"})
				}
				adopted := ns.AwaitReady("web")
				if got := apps.Revision(adopted); got != 2 {
					t.Errorf("revision %d, want 2", got)
				}
				for kind, object := range ns.Objects("web").All() {
					if owner := metav1.GetControllerOf(object); owner == nil || owner.UID != adopted.UID {
						t.Errorf("the %s belongs to %+v", kind, owner)
					}
				}
				ns.Delete("web")
				ns.AwaitGone("web")
				assertNothingInstalled(t, ns, "web")
			})
		}
	}
}
