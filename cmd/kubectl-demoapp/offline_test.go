// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned/scheme"
	"github.com/example/demoapp-controller/pkg/plugin"
)

// files writes files into a directory and returns it.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run runs a command without a cluster.
func run(t *testing.T, input string, args ...string) (code int, out, errs string) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var stdout, stderr bytes.Buffer
	code = plugin.Execute(t.Context(), plugin.Options{Kinds: kinds(), Intended: intended, Scheme: scheme.Scheme}, args,
		genericiooptions.IOStreams{In: strings.NewReader(input), Out: &stdout, ErrOut: &stderr})
	return code, stdout.String(), stderr.String()
}

var heading = regexp.MustCompile(`(?m)^# (.*)$|^kind: (.*)$`)

// headings returns the comments and kinds of rendered objects.
func headings(out string) []string {
	var found []string
	for _, match := range heading.FindAllStringSubmatch(out, -1) {
		found = append(found, match[1]+match[2])
	}
	return found
}

const demoApp = `
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {name: web, namespace: shop}
spec:
  message: Hello
  apiKeyFrom: {name: keys, key: api}
  valuesFrom: [{kind: ConfigMap, name: more}]
`

const sources = `
---
apiVersion: v1
kind: Secret
metadata: {name: keys, namespace: shop}
stringData: {api: abcdefgh-secret}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: more, namespace: shop}
data:
  values.yaml: |
    replicaCount: 4
`

func TestRenderDemoApp(t *testing.T) {
	code, out, errs := run(t, demoApp+sources, "render", "-f", "-", "-f", "../../artifacts/crds/demo.example.com_demoapps.yaml")

	if code != 0 || errs != "" {
		t.Fatalf("exit code %d, errors %q", code, errs)
	}
	want := []string{
		"DemoApp/web, demo-app/templates/secret.yaml", "Secret", "DemoApp/web, demo-app/templates/configmap.yaml", "ConfigMap",
		"DemoApp/web, demo-app/templates/service.yaml", "Service", "DemoApp/web, demo-app/templates/deployment.yaml", "Deployment",
	}
	if diff := cmp.Diff(want, headings(out)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if strings.Contains(out, "abcdefgh-secret") || strings.Contains(out, "YWJjZGVmZ2gtc2VjcmV0") {
		t.Error("the output has the secret")
	}
	for _, part := range []string{"namespace: shop", "meta.helm.sh/release-name: web", "app.kubernetes.io/managed-by: Helm", "replicas: "} {
		if !strings.Contains(out, part) {
			t.Errorf("the output lacks %q", part)
		}
	}
}

func TestRenderNamesWhatIsUnknown(t *testing.T) {
	code, _, errs := run(t, demoApp, "render", "-f", "-")

	want := "warning: DemoApp/web: not known without a cluster: the defaults of kind DemoApp; add its CRD to the files\n" +
		"warning: DemoApp/web: not known without a cluster: spec.valuesFrom[0]: ConfigMap more is not known without a cluster; add the object to the files\n" +
		"warning: DemoApp/web: not known without a cluster: spec: Secret keys is not known without a cluster; add the object to the files\n"
	if code != 0 || errs != want {
		t.Errorf("exit code %d, errors\n%s\nwant\n%s", code, errs, want)
	}
}

func TestRenderFollowsNamespace(t *testing.T) {
	const webApp = "apiVersion: example.com/v1\nkind: WebApp\nmetadata: {name: web, namespace: shop}\nspec: {image: nginx:1.27, replicas: 1}\n"
	for _, test := range []struct {
		name, level string
		restricted  bool
	}{
		{"restricted", "restricted", true},
		{"baseline", "baseline", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			namespace := "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n  labels: {pod-security.kubernetes.io/enforce: " + test.level + "}\n"

			code, out, errs := run(t, webApp+namespace, "render", "-f", "-", "-f", "../../artifacts/kinds/webapp/crd.yaml")

			if code != 0 || errs != "" {
				t.Fatalf("exit code %d, errors %q", code, errs)
			}
			if restricted := strings.Contains(out, "runAsNonRoot: true"); restricted != test.restricted {
				t.Errorf("restricted is %v:\n%s", restricted, out)
			}
		})
	}
}

// chartFiles are a kind of watches.yaml whose chart has a CRD, a hook, a lookup and a condition on what the
// API server serves.
var chartFiles = map[string]string{
	"chart/Chart.yaml":         "apiVersion: v2\nname: probe\nversion: 1.0.0\n",
	"chart/values.yaml":        "size: 1\n",
	"chart/values.schema.json": `{"properties": {"size": {"type": "integer", "maximum": 9}}}`,
	"chart/crds/part.yaml":     "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: parts.example.com}\n",
	"chart/templates/a.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  found: {{ lookup "v1" "Secret" .Release.Namespace "other" | empty | quote }}
  size: {{ .Values.size | quote }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations: {helm.sh/hook: "pre-install,pre-upgrade"}
{{- if .Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor" }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ .Release.Name }}
{{- end }}
`,
	"watches.yaml": "- group: charts.example.com\n  version: v1\n  kind: Probe\n  chart: CHART\n  releaseName: 'probe-{{ .metadata.name }}'\n  overrideValues:\n    size: 7\n",
	"probe.yaml": "apiVersion: charts.example.com/v1\nkind: Probe\nmetadata: {name: a, namespace: shop}\nspec: {size: 2}\n" +
		"---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a, namespace: shop}\n",
}

func TestRenderOfWatchesFile(t *testing.T) {
	dir := files(t, chartFiles)
	watches := filepath.Join(dir, "watches.yaml")
	if err := os.WriteFile(watches, []byte(strings.ReplaceAll(chartFiles["watches.yaml"], "CHART", filepath.Join(dir, "chart"))), 0o600); err != nil {
		t.Fatal(err)
	}
	const crd = "Probe/a, probe/crds/part.yaml"
	const hook = "Probe/a, probe/templates/a.yaml, hook: pre-install, pre-upgrade"
	for _, test := range []struct {
		name    string
		args    []string
		objects []string
		parts   []string
		unknown []string
	}{
		{
			"watches.yaml",
			[]string{"--watches-file", watches},
			[]string{crd, "CustomResourceDefinition", "Probe/a, probe/templates/a.yaml", "ConfigMap", hook, "Job"},
			[]string{"name: probe-a", `size: "7"`, `found: "true"`},
			[]string{"a template looks up v1 Secret shop/other", "the chart reads .Capabilities"},
		},
		{
			"another chart",
			[]string{"--chart", filepath.Join(dir, "chart"), "--api-versions", "monitoring.coreos.com/v1/ServiceMonitor"},
			[]string{crd, "CustomResourceDefinition", "Probe/a, probe/templates/a.yaml", "ConfigMap", "Probe/a, probe/templates/a.yaml", "ServiceMonitor", hook, "Job"},
			[]string{`size: "2"`, "name: a"},
			[]string{"a template looks up v1 Secret shop/other"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := run(t, "", append([]string{"render", "-f", filepath.Join(dir, "probe.yaml")}, test.args...)...)

			if code != 0 {
				t.Fatalf("exit code %d, errors %q", code, errs)
			}
			if diff := cmp.Diff(test.objects, headings(out)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			for _, part := range test.parts {
				if !strings.Contains(out, part) {
					t.Errorf("the output lacks %q:\n%s", part, out)
				}
			}
			if lines := strings.Count(errs, "\n"); lines != len(test.unknown)+1 { // The CRD is not given.
				t.Errorf("%d warnings:\n%s", lines, errs)
			}
			for _, part := range test.unknown {
				if !strings.Contains(errs, part) {
					t.Errorf("no warning says %q:\n%s", part, errs)
				}
			}
		})
	}
}

func TestValidate(t *testing.T) {
	dir := files(t, chartFiles)
	probe := strings.NewReplacer("size: 2", "size: 12").Replace(chartFiles["probe.yaml"])
	for _, test := range []struct {
		name, input string
		args        []string
		code        int
		out         []string
	}{
		{"valid", demoApp + sources, []string{"-f", "../../artifacts/crds"}, 0, []string{"DemoApp/web: valid"}},
		{
			"unknown field and value", strings.ReplaceAll(demoApp, "message: Hello", "mesage: Hello\n  replicaCount: -1"),
			[]string{"-f", "../../artifacts/crds"},
			1,
			[]string{"DemoApp/web: spec.mesage: unknown field", "DemoApp/web: spec.replicaCount: Invalid value: -1: spec.replicaCount in body should be greater than or equal to 0"},
		},
		{"rule", strings.ReplaceAll(demoApp, "message: Hello", "apiKey: abcdefgh-secret"), []string{"-f", "../../artifacts/crds"}, 1, []string{"DemoApp/web: spec", "apiKeyFrom"}},
		{"secret", strings.ReplaceAll(demoApp, "message: Hello", "apiKey: secret7"), []string{"-f", "../../artifacts/crds"}, 1, []string{"DemoApp/web: spec.apiKey: Invalid value: "}},
		{"schema of the chart", probe, []string{"--chart", filepath.Join(dir, "chart")}, 1, []string{"Probe/a: ", "values.size: maximum: got 12, want 9"}},
		{"no chart", probe, nil, 3, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := run(t, test.input, append([]string{"validate", "-f", "-"}, test.args...)...)

			if code != test.code {
				t.Errorf("exit code %d, want %d; errors %q", code, test.code, errs)
			}
			for _, part := range test.out {
				if !strings.Contains(out, part) {
					t.Errorf("the output lacks %q:\n%s", part, out)
				}
			}
			if strings.Contains(out+errs, "abcdefgh-secret") || strings.Contains(out+errs, "secret7") {
				t.Error("the output has the secret")
			}
		})
	}
}
