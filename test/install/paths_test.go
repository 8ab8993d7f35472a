// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
)

// chartLabels are the labels that only the chart sets, because they describe a Helm release. One of
// them is in selectors too: two releases of the chart must not select the pods of each other.
var chartLabels = []string{
	"helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version",
}

// TestPathsInstallTheSameObjects compares the three installations object by object. Labels of
// chartLabels, and the annotation that makes Helm keep the CRDs, are left out. The chart has no
// Namespace, because Helm requires that the namespace of a release exists.
func TestPathsInstallTheSameObjects(t *testing.T) {
	file, kustomize, chart := readInstallFile(t), renderBase(t), renderChart(t, nil)

	compare(t, "artifacts/install.yaml", contents(t, kustomize), contents(t, file))
	withoutNamespace := contents(t, kustomize)
	delete(withoutNamespace, "Namespace//"+namespace)
	compare(t, "the chart", withoutNamespace, contents(t, chart))
}

// TestVariantsAreTheSameObjects compares the chart with the kustomizations of docs/install.md and
// docs/security.md for further kinds, for some namespaces, for impersonation and for secure
// metrics.
func TestVariantsAreTheSameObjects(t *testing.T) {
	watched := func(namespace string, kinds ...string) []*object {
		objects := readObjects(t, "../../artifacts/rbac/namespaced/watched.yaml", namespace)
		for _, kind := range kinds {
			objects = append(objects, readObjects(t, "../../artifacts/rbac/namespaced/kinds/"+kind+".yaml", namespace)...)
		}
		return objects
	}
	tests := []struct {
		name, values, kustomization string
		// applied are objects in addition to the kustomization.
		applied []*object
		// leftOut are objects that only one of the two has.
		leftOut []string
	}{
		{
			name: "all kinds", values: "{kinds: [" + strings.Join(allKinds(t), ", ") + "]}",
			kustomization: "resources:\n- artifacts/deploy\n- artifacts/kinds/" + strings.Join(allKinds(t), "\n- artifacts/kinds/"),
		},
		{
			name: "some namespaces", values: "{watchNamespaces: [team-a, team-b]}",
			kustomization: exampleWith(t, "../../docs/security.md", "artifacts/rbac/namespaced"),
			applied:       append(watched("team-a"), watched("team-b")...),
		},
		{
			name: "a kind in some namespaces", values: "{watchNamespaces: [team-a], kinds: [website]}",
			kustomization: "resources:\n- artifacts/deploy\n- artifacts/kinds/website\ncomponents:\n- artifacts/rbac/namespaced\n" +
				withFlag("--namespaces=team-a"),
			applied: watched("team-a", "website"),
		},
		{
			name: "all kinds in some namespaces", values: "{watchNamespaces: [team-a], kinds: [" + strings.Join(allKinds(t), ", ") + "]}",
			kustomization: "resources:\n- artifacts/deploy\n- artifacts/kinds/" + strings.Join(allKinds(t), "\n- artifacts/kinds/") +
				"\ncomponents:\n- artifacts/rbac/namespaced\n" + withFlag("--namespaces=team-a"),
			applied: watched("team-a", allKinds(t)...),
		},
		{
			name: "impersonation", values: "{rbac: {impersonate: [demoapp-deployer]}, kinds: [memcached], watches: [" +
				strings.Replace(entry, "deployer", "demoapp-deployer", 1) + "]}",
			kustomization: "resources:\n- artifacts/deploy\ncomponents:\n- artifacts/rbac/impersonating",
			// The watches file and its volume are the user's.
			leftOut: []string{"Deployment/demoapp-system/demoapp-controller", "ConfigMap/demoapp-system/demoapp-controller-watches"},
		},
		{
			name: "secure metrics", values: "{metrics: {secure: true}}", kustomization: "resources:\n- artifacts/deploy",
			applied: readObjects(t, "../../artifacts/rbac/metrics-auth.yaml", ""),
			// docs/monitoring.md has the flags and the port.
			leftOut: []string{"Deployment/demoapp-system/demoapp-controller", "Service/demoapp-system/demoapp-controller-metrics"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			base := contents(t, append(renderOverlay(t, test.kustomization), test.applied...))

			chart := contents(t, renderChart(t, parse[values](t, test.values)))

			for _, key := range append(test.leftOut, "Namespace//"+namespace) {
				if base[key] == nil && chart[key] == nil {
					t.Errorf("none has %s", key)
				}
				delete(base, key)
				delete(chart, key)
			}
			compare(t, "the chart", base, chart)
		})
	}
}

// TestImpersonatingOverlay asserts that the operator of the overlay runs only the kinds of a
// watches file.
func TestImpersonatingOverlay(t *testing.T) {
	objects := renderOverlay(t, "resources:\n- artifacts/deploy\ncomponents:\n- artifacts/rbac/impersonating")

	args := convert[appsv1.Deployment](t, find(t, objects, "Deployment", releaseName)).Spec.Template.Spec.Containers[0].Args

	if !slices.Contains(args, "--controllers=watches") {
		t.Errorf("the flags are %v", args)
	}
}

// TestKustomizeExample builds the kustomization of docs/install.md.
func TestKustomizeExample(t *testing.T) {
	objects := renderOverlay(t, exampleWith(t, "../../docs/install.md", "artifacts/kinds/website"))

	container := convert[appsv1.Deployment](t, find(t, objects, "Deployment", releaseName)).Spec.Template.Spec.Containers[0]

	if container.Image != "registry.example.com/demoapp-controller:v1.0.0" {
		t.Errorf("the image is %s", container.Image)
	}
	if !slices.Contains(container.Args, "--allowed-registries=docker.io/library") {
		t.Errorf("the flags are %v", container.Args)
	}
	for kind, name := range map[string]string{
		"CustomResourceDefinition": "websites.webapp.example.com",
		"ClusterRoleBinding":       releaseName + "-website",
		"ClusterRole":              "website-editor",
	} {
		find(t, objects, kind, name)
	}
}

// exampleWith returns the kustomization of a page that names a path of this repository, with local
// paths.
func exampleWith(t *testing.T, page, path string) string {
	t.Helper()
	for block := range strings.SplitSeq(readFile(t, page), "```") {
		example, isYAML := strings.CutPrefix(block, "yaml\n")
		if isYAML && strings.Contains(example, "kustomize.config.k8s.io") && strings.Contains(example, path+"?ref=") {
			return remote.ReplaceAllString(example, "$1")
		}
	}
	t.Fatalf("%s: no kustomization has %s", page, path)
	return ""
}

// remote is a folder of a version of this repository.
var remote = regexp.MustCompile(`https://github\.com/example/demoapp-controller//(artifacts/\S+)\?ref=v[0-9.]+`)

// withFlag returns the patch of a kustomization that adds a flag.
func withFlag(flag string) string {
	return "patches:\n- target: {kind: Deployment}\n  patch: |-\n" +
		"    - {op: add, path: /spec/template/spec/containers/0/args/-, value: " + flag + "}\n"
}

// allKinds returns the names of the opt-in kinds.
func allKinds(t *testing.T) []string {
	t.Helper()
	folders, err := filepath.Glob("../../artifacts/kinds/*")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, folder := range folders {
		names = append(names, filepath.Base(folder))
	}
	return names
}

// compare reports each object that is not the same in the kustomize base and in another
// installation.
func compare(t *testing.T, name string, base, other map[string]map[string]any) {
	t.Helper()
	for key := range other {
		if _, ok := base[key]; !ok {
			t.Errorf("only %s has %s", name, key)
		}
	}
	for key, content := range base {
		if diff := cmp.Diff(content, other[key]); diff != "" {
			t.Errorf("%s: %s differs from artifacts/deploy (-deploy +other); after a change there, run \"make generate\":\n%s", key, name, diff)
		}
	}
}

// TestInstallFileOrder asserts that "kubectl apply -f" finds the namespace when it creates objects
// in it, and that the policies are there before the pods.
func TestInstallFileOrder(t *testing.T) {
	objects := readInstallFile(t)

	var kinds []string
	for _, o := range objects {
		if kind := o.GetKind(); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}

	if diff := cmp.Diff([]string{"Namespace", "CustomResourceDefinition", "ServiceAccount"}, kinds[:3]); diff != "" {
		t.Error(diff)
	}
	if last := kinds[len(kinds)-1]; last != "Deployment" {
		t.Errorf("the last kind is %s, not Deployment", last)
	}
}

// TestContentsDiffer asserts that the comparison finds a difference.
func TestContentsDiffer(t *testing.T) {
	want := contents(t, renderChart(t, nil))

	got := contents(t, renderChart(t, values{"replicaCount": 3}))

	if cmp.Equal(want, got) {
		t.Error("the number of replicas is not compared")
	}
}

// contents returns the content of objects by their identity, without fields that only the chart sets.
func contents(t testing.TB, objects []*object) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, o := range objects {
		if _, twice := found[id(o)]; twice {
			t.Errorf("%s is there twice", id(o))
		}
		content, _ := normalize(o.DeepCopy().Object).(map[string]any)
		found[id(o)] = content
	}
	return found
}

// normalize removes chartLabels and the annotation by which Helm keeps an object.
func normalize(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for _, label := range append([]string{"helm.sh/resource-policy"}, chartLabels...) {
			delete(v, label)
		}
		for key, inner := range v {
			v[key] = normalize(inner)
			if left, ok := v[key].(map[string]any); ok && key == "annotations" && len(left) == 0 {
				delete(v, key)
			}
		}
		return v
	case []any:
		for i := range v {
			v[i] = normalize(v[i])
		}
		return v
	default:
		return value
	}
}
