// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// chartLabels are the labels that only the chart sets, because they describe a Helm release. One of them is in selectors
// too: two releases of the chart must not select the pods of each other.
var chartLabels = []string{
	"helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version",
}

// TestPathsInstallTheSameObjects compares the three installations object by object. Labels of chartLabels, and the
// annotation that makes Helm keep the CRDs, are left out. The chart has no Namespace, because Helm requires that the
// namespace of a release exists.
func TestPathsInstallTheSameObjects(t *testing.T) {
	file, kustomize, chart := readInstallFile(t), renderBase(t), renderChart(t, nil)

	compare(t, "artifacts/install.yaml", contents(t, kustomize), contents(t, file))
	withoutNamespace := contents(t, kustomize)
	delete(withoutNamespace, "Namespace//"+namespace)
	compare(t, "the chart", withoutNamespace, contents(t, chart))
}

// compare reports each object that is not the same in the kustomize base and in another installation.
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

// TestInstallFileOrder holds that "kubectl apply -f" finds the namespace when it creates objects in it, and that the
// policies are there before the pods.
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

// TestContentsDiffer holds that the comparison finds a difference.
func TestContentsDiffer(t *testing.T) {
	want := contents(t, renderChart(t, nil))

	got := contents(t, renderChart(t, values{"replicaCount": 3}))

	if cmp.Equal(want, got) {
		t.Error("the number of replicas is not compared")
	}
}

// contents returns the content of objects by their identity, without what the chart alone sets.
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

// normalize removes chartLabels and the annotation of CRDs.
func normalize(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for _, label := range append([]string{"helm.sh/resource-policy"}, chartLabels...) {
			delete(v, label)
		}
		for key, inner := range v {
			v[key] = normalize(inner)
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
