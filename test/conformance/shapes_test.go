// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// unservedCRD: the engine does not retry if the API server does not serve the version of a CRD.
var unservedCRD = deviation{
	why: "the version of a file under crds/ will not be served by trying again; the engine names the chart's mistake",
	expect: func(helm *world) {
		if helm.Error == classKind {
			helm.Error = classRender
		}
	},
}

// deploySource returns the step that deploys a chart that is not in testdata.
func deploySource(name string, chart source) step {
	return step{name: name, do: func(t *testing.T, p player) error {
		t.Helper()
		return p.deploy(t.Context(), chart, nil)
	}}
}

// smallChart returns a chart with the files, the lines in its Chart.yaml and a ConfigMap.
func smallChart(lines string, files source) source {
	chart := source{
		"Chart.yaml":       []byte("apiVersion: v2\nname: small\nversion: 0.1.0\n" + lines),
		"templates/a.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
	}
	for name, data := range files {
		chart[name] = data
	}
	return chart
}

// TestShapes uses features of public charts that are easily handled wrong.
func TestShapes(t *testing.T) {
	t.Parallel()
	secrets := []deviation{stringData("beside-string-data"), stringData("entries")}
	scenarios := []scenario{
		{
			name: "null in place of data",
			steps: []step{
				deploy("install", "nulls", nil).but(secrets...),
				deploy("upgrade", "nulls", values{"message": "two"}),
				rollback(1),
				uninstall,
			},
		},
		{
			name:       "CRDs in templates, one of them never established",
			everywhere: true,
			steps: []step{
				deploy("install", "crdtemplates", nil),
				deploy("upgrade", "crdtemplates", values{"message": "two"}),
				rollback(1),
				uninstall,
			},
		},
		{
			name: "keys that YAML 1.1 reads as booleans",
			steps: []step{
				deploy("install", "booleans", nil),
				deploy("upgrade", "booleans", values{"message": "two"}),
				uninstall,
			},
		},
		{
			name: "kubeVersion",
			steps: []step{
				deploySource("install", smallChart("kubeVersion: \">=9.0.0\"\n", nil)).fails(classRender),
				deploySource("install for this version", smallChart("kubeVersion: \">=1.20.0-0\"\n", nil)),
				deploySource("upgrade", smallChart("kubeVersion: \">=9.0.0\"\n", nil)).fails(classRender),
			},
		},
		{
			name: "crds/ of a version that is not served",
			steps: []step{
				deploySource("install", smallChart("", source{
					"crds/old.yaml": []byte("apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: things.@NAMESPACE@.example.com}\n"),
				})).fails(classRender).but(unservedCRD),
			},
		},
	}
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			scenario.play(t)
		})
	}
}

// TestCRDsInTemplatesAddNoRequests asserts that CRDs in templates do not make other changes more expensive.
func TestCRDsInTemplatesAddNoRequests(t *testing.T) {
	t.Parallel()
	var counter requestCounter
	e := newEngine(t, newNamespace(t), everywhere, counter.get)
	chart := readChart(t, "crdtemplates")
	if err := e.converge(t.Context(), e.desired(chart, nil)); err != nil {
		t.Fatal(err)
	}
	counter.take()

	err := e.deploy(t.Context(), chart, values{"message": "two"})
	if err != nil {
		t.Fatal(err)
	}
	const changed = 2
	counter.atMost(t, "upgrade", changed+3)
}

// ownerText matches an owner reference in a manifest, in block or in flow style.
var ownerText = regexp.MustCompile(`(?m)^ *ownerReferences:\n(?: *- apiVersion: .*\n(?: +(?:controller|kind|name|uid): .*\n){4})|"ownerReferences": \[[^]]*\](?:, )?`)

// contentLines returns the lines of a manifest, without owners, and without differences in indentation and line ends.
func contentLines(manifest string) []string {
	lines := strings.Split(ownerText.ReplaceAllString(manifest, ""), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// TestOwnerReferencesInManifest asserts that the manifest of a release with an owner is Helm's, with the owner
// inserted.
func TestOwnerReferencesInManifest(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{"booleans", "forms", "plain", "nulls"} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			files := readChart(t, chart)
			s, e := newStock(t, newNamespace(t), &journal{}), newEngine(t, newNamespace(t))
			owner, err := shared.Client.CoreV1().ConfigMaps(e.namespace).
				Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			desired := e.desired(files, nil)
			desired.Owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}

			err = errors.Join(s.deploy(t.Context(), files, nil), e.pass(t.Context(), desired))
			if err != nil {
				t.Fatal(err)
			}
			want := newestRelease(t.Context(), t, s.namespace).Manifest
			got := newestRelease(t.Context(), t, e.namespace).Manifest
			if objects, owned := len(e.baseline.Inventory), len(ownerText.FindAllString(got, -1)); owned != objects {
				t.Errorf("%d owner references in the manifest of %d objects:\n%s", owned, objects, got)
			}
			if diff := cmp.Diff(contentLines(want), contentLines(got)); diff != "" {
				t.Errorf("the manifest differs in more than its owners (-helm +engine):\n%s", diff)
			}
			e.assertAsDesired(desired)
		})
	}
}

// TestRefusedCharts asserts that the engine refuses the charts that the helm command refuses.
func TestRefusedCharts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		files source
		links map[string]string
		// says is a part of both messages.
		says string
	}{
		"library chart":      {files: smallChart("type: library\n", nil), says: "not installable"},
		"missing dependency": {files: smallChart("dependencies: [{name: sub, version: 1.0.0, repository: \"file://../sub\"}]\n", nil), says: "missing in charts/ directory: sub"},
		"link to nowhere":    {files: smallChart("", nil), links: map[string]string{"templates/b.yaml": "none"}, says: "templates/b.yaml"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := tc.files.write(t, tc.links)
			s := newStock(t, newNamespace(t), &journal{})

			_, stderr, err := runCommand(t, s, "install", releaseName, dir)
			_, loading := chart.LoadDir(dir)

			if err == nil || !strings.Contains(stderr, tc.says) {
				t.Errorf("helm: error is %v, want one that says %q:\n%s", err, tc.says, stderr)
			}
			if !helm.IsTerminal(loading) || !strings.Contains(loading.Error(), tc.says) {
				t.Errorf("engine: error is %v, want a terminal one that says %q", loading, tc.says)
			}
		})
	}
}

// TestSymbolicLinksInCharts asserts that the engine and Helm resolve symbolic links in a directory in the same way.
func TestSymbolicLinksInCharts(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	linked := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: linked}\ndata: {text: {{ .Files.Get \"text\" }}}\n")
	if err := os.WriteFile(filepath.Join(outside, "linked.yaml"), linked, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := smallChart("", source{"files/text": []byte("hello")}).write(t, map[string]string{"templates/more": outside, "text": "files/text"})
	s, e := newStock(t, newNamespace(t), &journal{}), newEngine(t, newNamespace(t))
	chart, err := chart.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	desired := helm.Release{Namespace: e.namespace, Name: releaseName, Chart: chart}

	command(t, s, "install", releaseName, dir)
	err = e.pass(t.Context(), desired)
	if err != nil {
		t.Fatal(err)
	}
	want, got := look(t.Context(), t, s, nil), look(t.Context(), t, e, nil)
	// The journal does not have the requests of the command.
	want.Created = got.Created
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the engine differs from Helm (-helm +engine):\n%s", diff)
	}
	if _, ok := got.Objects["ConfigMap NAMESPACE/linked"]; !ok {
		t.Errorf("the template behind the link is missing: %v", got.Objects)
	}
}

// write writes the chart into a directory, with symbolic links and their targets.
func (s source) write(t testing.TB, links map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range s {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
