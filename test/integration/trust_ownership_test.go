// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
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

// controlledBy makes a DemoApp the controller of an object.
func controlledBy(object *corev1.ConfigMap, app *v1alpha1.DemoApp) {
	object.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "DemoApp", Name: app.Name, UID: app.UID, Controller: ptr.To(true),
	}}
}

// TestForgedMarksDoNotProveOwnership creates an object with the marks of a release before the first
// install.
func TestForgedMarksDoNotProveOwnership(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(object *corev1.ConfigMap, app *v1alpha1.DemoApp)
	}{
		{"marks of Helm", func(object *corev1.ConfigMap, app *v1alpha1.DemoApp) { helmMarks(object, app.Namespace) }},
		{"controller", controlledBy},
		{"both", func(object *corev1.ConfigMap, app *v1alpha1.DemoApp) {
			helmMarks(object, app.Namespace)
			controlledBy(object, app)
		}},
	}
	for _, test := range tests {
		for _, way := range []string{"created", "applied as helm"} {
			t.Run(test.name+" "+way, func(t *testing.T) {
				t.Parallel()
				ns := newNamespace(t)
				tenant := ns.AddTenant("demoapps")
				app := ns.Create(suspended("web"))
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Data: map[string]string{"some": "data"}}
				test.change(object, app)
				if way == "created" {
					createConfigMap(t, ns, tenant, object)
				} else {
					applyConfigMap(t, ns, tenant, object)
				}
				before := contentsNamed(ns, "web")

				ns.Change("web", suspend(false))
				ns.Await("web", "refused", isConflict)
				ns.AwaitQuiet(quiet)
				assertSameContents(t, before, contentsNamed(ns, "web"))

				if err := tenant.Client.CoreV1().ConfigMaps(ns.Name).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Now it is free" })
				ns.AwaitReady("web")
				if got := len(ns.Objects("web").All()); got != 4 {
					t.Errorf("%d objects", got)
				}
			})
		}
	}
}

func createConfigMap(t *testing.T, ns *apps.Namespace, tenant *apps.Tenant, object *corev1.ConfigMap) {
	t.Helper()
	if _, err := tenant.Client.CoreV1().ConfigMaps(ns.Name).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// applyConfigMap applies an object with the field manager that the helm command and the operator
// share.
func applyConfigMap(t *testing.T, ns *apps.Namespace, tenant *apps.Tenant, object *corev1.ConfigMap) {
	t.Helper()
	object.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	applied := corev1apply.ConfigMap(object.Name, ns.Name).WithLabels(object.Labels).WithAnnotations(object.Annotations).WithData(object.Data)
	for _, owner := range object.OwnerReferences {
		applied.WithOwnerReferences(metav1apply.OwnerReference().WithAPIVersion(owner.APIVersion).WithKind(owner.Kind).
			WithName(owner.Name).WithUID(owner.UID).WithController(true))
	}
	_, err := tenant.Client.CoreV1().ConfigMaps(ns.Name).Apply(t.Context(), applied, metav1.ApplyOptions{FieldManager: "helm"})
	if err != nil {
		t.Fatal(err)
	}
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
}{
	{"another chart", func(t *testing.T, ns *apps.Namespace) map[string]any {
		t.Helper()
		return otherRelease(t, ns, writeChart(t, map[string]string{
			"configmap.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {some: data}\n",
			"service.yaml":   "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 81}]}\n",
		}))
	}},
	{"the same chart", func(t *testing.T, ns *apps.Namespace) map[string]any {
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
