// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
)

// thingsCRDs are templates of CRDs that nobody establishes.
func thingsCRDs(count int, files map[string]string) map[string]string {
	for i := range count {
		group := fmt.Sprintf("example%d.com", i)
		files[fmt.Sprintf("templates/crd%d.yaml", i)] = strings.ReplaceAll(thingsCRD, "example.com", group)
	}
	return files
}

// TestCRDsInTemplates: CRDs in templates are ordinary objects. The engine does not wait for them,
// and they cause no request when other objects change.
func TestCRDsInTemplates(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		release := func(data string) Release {
			return made(t, thingsCRDs(7, map[string]string{"templates/a.yaml": configMap("a", data), "templates/b.yaml": configMap("b", data)}))
		}
		f.must(release("1"), ActionInstall, CauseNotInstalled)
		wantRecords(t, f, "web.v1 deployed")
		f.TakeRequests()

		f.must(release("2"), ActionUpgrade, CauseInputsChanged)

		wantRequests(t, f,
			"create secrets default",
			"apply configmaps default/a",
			"apply configmaps default/b",
			"update secrets default/sh.helm.release.v1.web.v1",
			"update secrets default/sh.helm.release.v1.web.v2",
		)
		f.must(release("2"), ActionNone, CauseNone)
		if _, err := f.engine.Execute(t.Context(), release("2"), Decision{Action: ActionRollback, To: 1}, f.baseline); err != nil {
			t.Fatal(err)
		}
		if got := len(f.TakeRequests()); got > 5 {
			t.Errorf("the rollback of two objects took %d requests, want at most 5", got)
		}
	})
}

// TestUnservedCRDs: a file under crds/ that cannot be created fails the install.
func TestUnservedCRDs(t *testing.T) {
	old := strings.ReplaceAll(thingsCRD, "apiextensions.k8s.io/v1\n", "apiextensions.k8s.io/v1beta1\n")
	t.Run("version", func(t *testing.T) {
		for name, file := range map[string]string{"alone": old, "beside another": old + "---\n" + strings.ReplaceAll(thingsCRD, "things", "others")} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fixture) {
					f.With(func() { f.React = establish })
					_, err := f.reconcile(made(t, map[string]string{"crds/things.yaml": file, "templates/a.yaml": configMap("a", "1")}))
					got := wantError[*RenderError](t, err)
					if got.Chart != "test" || !IsTerminal(err) || !strings.Contains(err.Error(), "apiextensions.k8s.io/v1beta1") || !strings.Contains(err.Error(), "things.example.com") {
						t.Errorf("error is %v, want a terminal one that names chart, CRD and version", err)
					}
					wantRecords(t, f)
					if got := f.Names(); len(got) > 0 {
						t.Errorf("objects %s of a release that is refused", got)
					}
				})
			})
		}
	})
	t.Run("kind that may still come", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			_, err := f.reconcile(made(t, map[string]string{"crds/thing.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n"}))
			if !meta.IsNoMatchError(err) || IsTerminal(err) {
				t.Errorf("error is %v, want an unknown kind that is not terminal", err)
			}
			wantRecords(t, f)
		})
	})
	t.Run("of a sub-chart that is disabled", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			f.must(made(t, map[string]string{
				"Chart.yaml":                  "apiVersion: v2\nname: test\nversion: 1.2.3\ndependencies: [{name: sub, version: 1.0.0, condition: sub.enabled}]\n",
				"values.yaml":                 "sub: {enabled: false}\n",
				"charts/sub/Chart.yaml":       "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
				"charts/sub/crds/things.yaml": old,
				"templates/a.yaml":            configMap("a", "1"),
			}), ActionInstall, CauseNotInstalled)
		})
	})
}
