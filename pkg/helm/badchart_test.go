// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/memory"
)

// manyConfigMaps is a template of a number of ConfigMaps.
func manyConfigMaps(count string) string {
	return "{{ range until (int " + count + ") }}\n---\n" + configMap("many-{{ . }}", "1") + "{{ end }}\n"
}

// TestBadChartsStayWithinLimits: a chart that cannot be applied is refused before anything is sent
// to the API server. The error is terminal, has one line, and names chart, object and limit. Other
// releases are not affected.
func TestBadChartsStayWithinLimits(t *testing.T) {
	laughs := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a0: &a0 [lol]\n"
	for i := range 9 {
		laughs += fmt.Sprintf("  a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	nameless := "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n"
	tests := map[string]struct {
		files map[string]string
		says  []string
	}{
		"10,000 objects": {
			map[string]string{"templates/a.yaml": manyConfigMaps("10000")},
			[]string{"inventory of 10000 objects", "the limit of 524288", "split the chart"},
		},
		"more than 10,000 objects": {
			map[string]string{"templates/a.yaml": manyConfigMaps("10001")}, []string{"the limit of 10000"},
		},
		"a number of objects that is larger than the memory": {
			map[string]string{"templates/a.yaml": manyConfigMaps("2000000000")},
			[]string{"test/templates/a.yaml", "until", "2000000000 is more than the limit"},
		},
		"templates that include each other": {
			map[string]string{
				"templates/_a.tpl": `{{ define "a" }}{{ include "b" . }}{{ end }}{{ define "b" }}{{ include "a" . }}{{ end }}`,
				"templates/a.yaml": `{{ include "a" . }}`,
			},
			[]string{"test/templates/a.yaml", "nested reference name", "calls left out"},
		},
		"a template that includes itself": {
			map[string]string{"templates/_a.tpl": `{{ define "a" }}{{ include "a" . }}{{ end }}`, "templates/a.yaml": `{{ include "a" . }}`},
			[]string{"test/templates/a.yaml", "nested reference name: a", "calls left out"},
		},
		"an object twice": {
			map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("a", "2")},
			[]string{"ConfigMap default/a from test/templates/a.yaml is in the manifest again from test/templates/b.yaml: rename or remove"},
		},
		"an object twice, in two versions": {
			map[string]string{
				"templates/a.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: default}\n",
			},
			[]string{"Deployment default/a from test/templates/a.yaml is in the manifest again"},
		},
		"an object without a name": {
			map[string]string{"templates/a.yaml": nameless}, []string{"test/templates/a.yaml: ConfigMap: metadata.name is missing: set it"},
		},
		"a hook without a name": {
			map[string]string{"templates/a.yaml": strings.Replace(hook("", "post-install", 0), "name: ", "generateName: a-", 1)},
			[]string{"hook test/templates/a.yaml: Job: metadata.name is missing: set it"},
		},
		"a name that leads elsewhere": {
			map[string]string{"templates/a.yaml": configMap("../secrets/a", "1")}, []string{`metadata.name "../secrets/a" is not a valid name`},
		},
		"a YAML bomb": {map[string]string{"templates/a.yaml": laughs}, []string{"test/templates/a.yaml", "aliasing"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				other := made(t, map[string]string{"templates/a.yaml": configMap("other", "1")})
				other.Name = "other"
				f.must(other, ActionInstall, CauseNotInstalled)
				baseline := f.baseline
				f.baseline = Baseline{}
				f.TakeRequests()
				before := memory.Allocated()

				_, err := f.reconcile(made(t, tc.files))

				got := wantError[*RenderError](t, err)
				if !IsTerminal(err) || got.Chart != "test" || strings.Contains(err.Error(), "\n") {
					t.Errorf("error is %q, want a terminal one of one line that names the chart", err)
				}
				for _, part := range tc.says {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("error is %q, want one that says %q", err, part)
					}
				}
				if took := memory.Allocated() - before; took/8 > memory.Limit {
					t.Errorf("%d bytes were allocated, want a few hundred MiB at most", took)
				}
				wantRequests(t, f)
				f.baseline = baseline
				f.must(other, ActionNone, CauseNone)
			})
		})
	}
}

// TestHangingHookHoldsItsReleaseOnly: while a hook of one release never ends, other releases
// are deployed. The timeout ends the operation, and a chart without the hook is deployed.
func TestHangingHookHoldsItsReleaseOnly(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.React = func(*unstructured.Unstructured) bool { return false } })
		slow := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/slow.yaml": hook("slow", "pre-install", 0)})
		slow.Timeout = time.Minute
		other := made(t, map[string]string{"templates/b.yaml": configMap("b", "1")})
		other.Name = "other"
		ended, started := make(chan error), time.Now()
		go func() {
			_, err := f.engine.Execute(t.Context(), slow, Decision{Action: ActionInstall, Cause: CauseNotInstalled}, Baseline{})
			ended <- err
		}()
		synctest.Wait()

		f.must(other, ActionInstall, CauseNotInstalled)
		f.must(other, ActionNone, CauseNone)
		if took := time.Since(started); took > 0 {
			t.Errorf("the other release took %s", took)
		}
		err := <-ended
		if took := time.Since(started); IsTerminal(err) || took < slow.Timeout || took > slow.Timeout+recordGrace {
			t.Errorf("error is %v after %s, want one that is not terminal after %s", err, took, slow.Timeout)
		}
		for _, part := range []string{"Job default/slow", "1m0s"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("error is %v, want one that says %q", err, part)
			}
		}
		f.baseline = Baseline{}
		f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1")}), ActionUpgrade, CauseInputsChanged)
	})
}

// TestChartsWithinLimits: a chart that is large and within the limits is deployed.
func TestChartsWithinLimits(t *testing.T) {
	subcharts := map[string]string{"templates/a.yaml": configMap("a", "1")}
	for i := range 100 {
		name := fmt.Sprintf("sub%d", i)
		subcharts["charts/"+name+"/Chart.yaml"] = "apiVersion: v2\nname: " + name + "\nversion: 1.2.3\n"
		subcharts["charts/"+name+"/templates/a.yaml"] = configMap(name, "1")
	}
	tests := map[string]struct {
		files   map[string]string
		objects int
	}{
		"100 sub-charts": {subcharts, 101},
		"2,000 objects":  {map[string]string{"templates/a.yaml": manyConfigMaps("2000")}, 2000},
		"a file of 900 kB": {map[string]string{
			"files/a":          fill("0123456789", 900_000),
			"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: {{ .Files.Get \"files/a\" | quote }}}\n",
		}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := made(t, tc.files)

				f.must(desired, ActionInstall, CauseNotInstalled)

				if got := len(f.baseline.Inventory); got != tc.objects {
					t.Errorf("%d objects, want %d", got, tc.objects)
				}
				f.must(desired, ActionNone, CauseNone)
			})
		})
	}
}

// TestFormerObjectWithoutName: an object without a name in the record of an earlier version of the
// engine does not block an uninstall.
func TestFormerObjectWithoutName(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		f.must(desired, ActionInstall, CauseNotInstalled)
		var digest string
		f.foreign(desired, 2, common.StatusDeployed, func(rls *releasev1.Release) {
			rls.Manifest += "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: b-}\n"
			var err error
			if digest, err = record.DigestOf(rls.Labels[record.SaltLabel], rls); err != nil {
				t.Fatal(err)
			}
		})
		f.baseline.Revision, f.baseline.Revisions = 2, []record.Digest{{Revision: 2, Digest: digest}}
		f.restart()

		_, err := f.engine.Uninstall(t.Context(), desired, f.baseline)
		if err != nil {
			t.Error(err)
		}
		if got := f.Names(); len(got) > 0 {
			t.Errorf("objects %s are left", got)
		}
	})
}

// fill repeats a text up to a size.
func fill(text string, size int) string { return strings.Repeat(text, size/len(text)) }
