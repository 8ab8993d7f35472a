// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/types"
	kyaml "sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

var operator = types.NamespacedName{Namespace: "demoapp-system", Name: "demoapp-controller"}

// made makes a kind of a chart of testdata and returns its files by name.
func made(t *testing.T, name string, options Options) (Result, map[string]string) {
	t.Helper()
	dir := filepath.Join("testdata", name)
	loaded, err := chart.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	options.Chart, options.Operator = dir, operator
	if values, err := os.ReadFile(dir + "-values.yaml"); err == nil && options.Values == nil {
		options.Values = values
	}
	result, err := New(t.Context(), loaded, options)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, file := range result.Files {
		files[file.Name] = file.Content
	}
	return result, files
}

// admit returns the fields that a CRD removes from an object, and its errors, as the API server
// does.
func admit(t *testing.T, crd, spec string) (removed, errs []string) {
	t.Helper()
	var versioned apiextensionsv1.CustomResourceDefinition
	if err := kyaml.UnmarshalStrict([]byte(crd), &versioned); err != nil {
		t.Fatal(err)
	}
	var schema apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		versioned.Spec.Versions[0].Schema.OpenAPIV3Schema, &schema, nil); err != nil {
		t.Fatal(err)
	}
	tree, err := structural.NewStructural(&schema)
	if err != nil {
		t.Fatal(err)
	}
	if invalid := structural.ValidateStructural(nil, tree); len(invalid) > 0 {
		t.Fatal(invalid)
	}
	validator, _, err := validation.NewSchemaValidator(&schema)
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	if err := kyaml.Unmarshal([]byte("{apiVersion: a/v1, kind: A, metadata: {name: a}, spec: "+spec+"}"), &object); err != nil {
		t.Fatal(err)
	}
	for _, err := range validation.ValidateCustomResource(nil, object, validator) {
		errs = append(errs, err.Field)
	}
	removed = pruning.PruneWithOptions(object, tree, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	return removed, errs
}

// TestAdmission: the CRDs of the charts accept all values that the charts accept, and refuse
// invalid values as far as a structural schema can.
func TestAdmission(t *testing.T) {
	tests := []struct {
		chart, spec string
		removed     []string
		errs        []string
	}{
		{chart: "typed", spec: "{}"},
		{chart: "typed", spec: "{replicas: 3, image: {tag: null}, storage: {type: disk, path: /data}, port: 80, labels: {a: b}}"},
		{chart: "typed", spec: "{port: http, replicas: null}"},
		{chart: "typed", spec: "{storage: disk}", errs: []string{"spec.storage"}},
		{chart: "typed", spec: "{replicas: 11}", errs: []string{"spec.replicas"}},
		{chart: "typed", spec: "{image: {repository: 1}}", errs: []string{"spec.image.repository"}},
		{chart: "typed", spec: "{labels: {a: 1}}", errs: []string{"spec.labels.a"}},
		{chart: "typed", spec: "{imge: {}, image: {tg: 1}}", removed: []string{"spec.image.tg", "spec.imge"}},
		{chart: "typed", spec: "{rbac: {further: 1}}"},
		{chart: "plain", spec: "{size: 3, image: {digest: sha256}, annotations: {of: others}, resources: {limits: {cpu: 1}}, password: secret, global: {a: 1}}"},
		{chart: "plain", spec: "{size: a, ratio: 2, args: [1], mixed: [1, {c: d}]}"},
		{chart: "plain", spec: "{image: nginx}", errs: []string{"spec.image"}},
		{chart: "wide", spec: "{}"},
		{chart: "wide", spec: `{image: {tag: "1.27.1"}, minAvailable: 50%, targetPort: 8080, timeout: 30s, ratio: 0.5, priority: 5}`},
		{chart: "wide", spec: `{image: {tag: 1}, minAvailable: 0.5, targetPort: "8080", timeout: 0.5, ratio: "1", priority: 0.5, debug: "true"}`},
		{chart: "wide", spec: `{schedule: "@daily", hosts: "a,b", annotations: "a: b", resources: {requests: {cpu: 500m}}, debug: auto}`},
		{chart: "wide", spec: `{schedule: 5, hosts: [1, {a: b}], annotations: {a: 1}, resources: {requests: {cpu: 0.5}}, debug: null}`},
		{chart: "wide", spec: "{image: {tg: 1}, resources: {request: {}}, hots: []}", removed: []string{"spec.hots", "spec.image.tg", "spec.resources.request"}},
		{chart: "plain", spec: "{sise: 3, image: {tg: 1}}", removed: []string{"spec.image.tg", "spec.sise"}},
		{chart: "required", spec: "{database: {host: a}}"},
		{chart: "required", spec: "{database: {port: a}}"},
		{chart: "required", spec: "{database: a}", errs: []string{"spec.database"}},
	}
	for _, test := range tests {
		t.Run(test.chart+" "+test.spec, func(t *testing.T) {
			_, files := made(t, test.chart, Options{})
			removed, errs := admit(t, files["crd.yaml"], test.spec)
			slices.Sort(removed)
			slices.Sort(errs)
			if diff := cmp.Diff([][]string{test.removed, test.errs}, [][]string{removed, errs}); diff != "" {
				t.Errorf("removed fields and errors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWidenedDefaults: each field whose type is not known has a line.
func TestWidenedDefaults(t *testing.T) {
	result, _ := made(t, "wide", Options{})
	var want []string
	for _, field := range []string{
		"annotations: values.yaml has an empty object", "debug: values.yaml has a boolean", "hosts: values.yaml has a list",
		"image.repository: values.yaml has a text", "image.tag: values.yaml has a number", "minAvailable: values.yaml has a number",
		"priority: values.yaml has a text", "ratio: values.yaml has a number", "resources.requests.cpu: values.yaml has a number",
		"schedule: values.yaml has null", "targetPort: values.yaml has a text", "timeout: values.yaml has a number",
	} {
		want = append(want, "spec."+field+"; the chart may accept other types")
	}
	if diff := cmp.Diff(want, result.Widened); diff != "" {
		t.Errorf("widened (-want +got):\n%s", diff)
	}
	if result.HasSchema {
		t.Error("the chart has no values.schema.json")
	}
}

// TestConvert: each rule is in the structural schema, or it is widened with its path.
func TestConvert(t *testing.T) {
	tests := map[string]struct {
		schema, want string
		widened      []string
	}{
		"any":             {schema: `{}`, want: `{x-kubernetes-preserve-unknown-fields: true, nullable: true}`},
		"null":            {schema: `{"type": ["string", "null"]}`, want: `{type: string, nullable: true}`},
		"null by anyOf":   {schema: `{"anyOf": [{"type": "null"}, {"type": "integer"}]}`, want: `{type: integer, nullable: true}`},
		"int or string":   {schema: `{"oneOf": [{"type": "integer"}, {"type": "string"}]}`, want: `{x-kubernetes-int-or-string: true}`},
		"const":           {schema: `{"type": "string", "const": "a"}`, want: `{type: string, enum: [a]}`},
		"exclusive bound": {schema: `{"type": "number", "exclusiveMinimum": 1}`, want: `{type: number, minimum: 1, exclusiveMinimum: true}`},
		"allOf": {
			schema: `{"type": "object", "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}], "properties": {"b": {"type": "string"}}, "additionalProperties": false}`,
			want:   `{type: object, properties: {a: {type: string}, b: {type: string}}, required: [a]}`,
		},
		"types": {
			schema: `{"type": ["boolean", "string"]}`, want: `{x-kubernetes-preserve-unknown-fields: true, nullable: true}`,
			widened: []string{"spec: a CRD has no value of the types boolean, string"},
		},
		"format":  {schema: `{"type": "string", "format": "iri"}`, want: `{type: string}`, widened: []string{"spec: a CRD has no format iri"}},
		"pattern": {schema: `{"type": "string", "pattern": "(?!a)"}`, want: `{type: string}`, widened: []string{"spec: the pattern is no regular expression of Go"}},
		"unique": {
			schema: `{"type": "array", "uniqueItems": true, "items": {"type": "string"}}`, want: `{type: array, items: {type: string}}`,
			widened: []string{"spec: a CRD has no uniqueItems"},
		},
		"recursion": {
			schema: `{"type": "object", "additionalProperties": {"$ref": "#"}}`,
			want: `{type: object, additionalProperties: {type: object, additionalProperties:
				{x-kubernetes-preserve-unknown-fields: true, nullable: true}}}`,
			widened: []string{"spec.*.*: the reference # is recursive"},
		},
		"reference to nothing": {
			schema: `{"$ref": "#/definitions/a"}`, want: `{x-kubernetes-preserve-unknown-fields: true, nullable: true}`,
			widened: []string{"spec: the reference #/definitions/a leads to nothing"},
		},
		"reference to a URL": {
			schema: `{"$ref": "https://example.com/a.json"}`, want: `{x-kubernetes-preserve-unknown-fields: true, nullable: true}`,
			widened: []string{"spec: the reference https://example.com/a.json leads out of the file"},
		},
		"patterns of names": {
			schema: `{"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": false}`,
			want:   `{type: object, x-kubernetes-preserve-unknown-fields: true}`, widened: []string{"spec: a CRD has no patternProperties"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root, err := parseSchema([]byte(test.schema))
			if err != nil {
				t.Fatal(err)
			}
			c := &converter{root: root}
			got, err := kyaml.Marshal(c.convert("spec", root, nil, nil))
			if err != nil {
				t.Fatal(err)
			}
			want, err := kyaml.YAMLToJSON([]byte(test.want))
			if err != nil {
				t.Fatal(err)
			}
			have, err := kyaml.YAMLToJSON(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(have)); diff != "" {
				t.Errorf("schema (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.widened, c.widened); diff != "" {
				t.Errorf("widened (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRules: the operator gets the resources of all objects, also of optional objects, and the
// permissions that the chart grants, but not for the hooks of tests.
func TestRules(t *testing.T) {
	_, files := made(t, "typed", Options{Group: "apps.example.com"})
	got := rulesOf(t, files)
	want := []string{
		"apps.example.com typedapps list,watch,patch",
		"apps.example.com typedapps/status patch",
		" services get,list,watch,create,patch,delete",
		"apps deployments get,list,watch,create,patch,delete",
		"rbac.authorization.k8s.io rolebindings,roles get,list,watch,create,patch,delete",
		"rbac.authorization.k8s.io roles bind",
		" pods get,list",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// rulesOf returns the rules of the operator.
func rulesOf(t *testing.T, files map[string]string) (rules []string) {
	t.Helper()
	text, _, _ := strings.Cut(files["rbac.yaml"], "---\n")
	var role rbacv1.ClusterRole
	if err := kyaml.UnmarshalStrict([]byte(text), &role); err != nil {
		t.Fatal(err)
	}
	for _, rule := range role.Rules {
		rules = append(rules, strings.Join(rule.APIGroups, ",")+" "+strings.Join(rule.Resources, ",")+" "+strings.Join(rule.Verbs, ","))
	}
	return rules
}

// TestConditionalObjects: the operator gets the resources of objects behind any condition. A note names
// each template without a rendered object, and the kinds that the texts of templates do not show.
func TestConditionalObjects(t *testing.T) {
	result, files := made(t, "conditional", Options{})
	const verbs = " get,list,watch,create,patch,delete"
	want := []string{
		"charts.example.com conditionals list,watch,patch",
		"charts.example.com conditionals/status patch",
		" configmaps,resourcequotas,secrets" + verbs,
		"apps daemonsets,deployments,statefulsets" + verbs,
		"autoscaling horizontalpodautoscalers" + verbs,
		"batch cronjobs" + verbs,
		"monitoring.coreos.com servicemonitors" + verbs,
		"networking.k8s.io ingresses" + verbs,
		"policy poddisruptionbudgets" + verbs,
		"rbac.authorization.k8s.io rolebindings,roles" + verbs,
		" pods list",
	}
	if diff := cmp.Diff(want, rulesOf(t, files)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	const none, from = "rbac.yaml: no rendering had objects of conditional/", "; from its text come the permissions for "
	notes := []string{
		"rbac.yaml: add what the RoleBinding of conditional/templates/binding.yaml grants, which no rendering had; the operator can only grant what it may do",
		"rbac.yaml: conditional/templates/chosen.yaml computes a kind or an apiVersion; add the permissions for further results",
		none + "charts/cache/templates/quota.yaml" + from + "resourcequotas",
		none + "templates/backups.yaml" + from + "cronjobs.batch",
		none + "templates/binding.yaml" + from + "rolebindings.rbac.authorization.k8s.io",
		none + "templates/chosen.yaml" + from + "deployments.apps, statefulsets.apps",
		none + "templates/extra.yaml, and its text names no kind; add the permissions for its objects, if it has any",
		none + "templates/hpa.yaml" + from + "horizontalpodautoscalers.autoscaling",
		none + "templates/ingress.yaml" + from + "ingresses.networking.k8s.io",
		none + "templates/monitor.yaml" + from + "servicemonitors.monitoring.coreos.com",
		none + "templates/workload.yaml" + from + "daemonsets.apps, deployments.apps",
		"rbac.yaml: servicemonitors.monitoring.coreos.com is taken for the resource of ServiceMonitor; correct it if the CRD has another name",
		"watches.yaml: scope Namespace refuses the ClusterRole of conditional/templates/role.yaml, which no rendering had",
	}
	if diff := cmp.Diff(notes, result.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// TestNamesOf: the kinds that the text of a template names.
func TestNamesOf(t *testing.T) {
	tests := map[string]struct {
		template string
		want     []string
		computed bool
	}{
		"none":                   {template: "{{ .Values.text }}"},
		"quoted":                 {template: "\"apiVersion\": \"v1\"\n'kind': 'Secret'", want: []string{"Secret"}},
		"flow":                   {template: `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}`, want: []string{"Secret"}},
		"carriage returns":       {template: "apiVersion: apps/v1\r\nkind: Deployment\r\n", want: []string{"Deployment.apps"}},
		"kind first":             {template: "kind: Job\napiVersion: batch/v1", want: []string{"Job.batch"}},
		"indented":               {template: "{{ if .Values.a }}\n  apiVersion: v1\n  kind: Secret\n{{ end }}", want: []string{"Secret"}},
		"list":                   {template: "apiVersion: v1\nkind: List\nitems:\n{{ range .Values.a }}\n- apiVersion: v1\n  kind: Secret\n{{ end }}", want: []string{"Secret"}},
		"comment":                {template: "{{/*\napiVersion: v1\nkind: Secret\n*/}}\napiVersion: v1\nkind: ConfigMap", want: []string{"ConfigMap"}},
		"older API":              {template: "{{ if .Values.old }}\napiVersion: extensions/v1beta1\n{{ else }}\napiVersion: networking.k8s.io/v1\n{{ end }}\nkind: Ingress", want: []string{"Ingress.networking.k8s.io"}},
		"computed apiVersion":    {template: "apiVersion: {{ .Values.api }}\nkind: Ingress", want: []string{"Ingress.networking.k8s.io"}},
		"apiVersion by default":  {template: "apiVersion: {{ .Values.api | default \"example.com/v1\" }}\nkind: Gadget", want: []string{"Gadget.example.com"}},
		"apiVersion of a CRD":    {template: "apiVersion: {{ .Values.api }}\nkind: Gadget", computed: true},
		"computed kind":          {template: "apiVersion: apps/v1\nkind: {{ .Values.kind }}", computed: true},
		"kind by default":        {template: "apiVersion: apps/v1\nkind: {{ .Values.kind | default \"DaemonSet\" }}", want: []string{"DaemonSet.apps"}},
		"dynamic kind":           {template: "apiVersion: apps/v1\nkind: {{ .Values.kind }}\n{{ if eq .Values.kind \"StatefulSet\" }}a: b{{ end }}", want: []string{"StatefulSet.apps"}, computed: true},
		"recursive template":     {template: "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}"},
		"several documents":      {template: "apiVersion: v1\nkind: Secret\n---\napiVersion: batch/v1\nkind: Job\n", want: []string{"Job.batch", "Secret"}},
		"test beside a document": {template: "apiVersion: v1\nkind: Secret\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    \"helm.sh/hook\": test-success\n", want: []string{"Secret"}},
		"hook":                   {template: "apiVersion: batch/v1\nkind: Job\nmetadata:\n  annotations:\n    helm.sh/hook: pre-install,test\n", want: []string{"Job.batch"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found := namedIn(chart.Content{Name: "a", Templates: map[string]string{"templates/a.yaml": test.template}})["a/templates/a.yaml"]
			var got []string
			for kind := range found.kinds {
				got = append(got, kind.String())
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" || found.computed != test.computed {
				t.Errorf("computed %t, kinds (-want +got):\n%s", found.computed, diff)
			}
		})
	}
}

// TestEntry: the entry is valid, and names the chart and the kind.
func TestEntry(t *testing.T) {
	for _, name := range []string{"typed", "plain", "required"} {
		t.Run(name, func(t *testing.T) {
			result, files := made(t, name, Options{})
			entries, err := file.Parse("watches.yaml", []byte(files["watches.yaml"]), os.LookupEnv)
			if err != nil {
				t.Fatal(err)
			}
			if len(entries) != 1 || entries[0].GroupVersionKind != result.Kind || entries[0].Chart != "testdata/"+name || entries[0].Scope != file.ScopeNamespace {
				t.Errorf("entries are %+v", entries)
			}
		})
	}
}

// TestExample: the example has the comments of values.yaml, and the values that the chart needs.
func TestExample(t *testing.T) {
	_, files := made(t, "required", Options{Kind: "Store"})
	want := `apiVersion: charts.example.com/v1alpha1
kind: Store
metadata:
  name: store-sample
spec:
  # The host must be given.
  database:
    host: db.example.com
    port: 5432
`
	if diff := cmp.Diff(want, files["example.yaml"]); diff != "" {
		t.Errorf("example (-want +got):\n%s", diff)
	}
}

// TestSubCharts: values of a sub-chart are typed below its name, and its condition is accepted.
func TestSubCharts(t *testing.T) {
	loaded, err := chart.LoadFS(fstest.MapFS{
		"Chart.yaml": {Data: []byte("apiVersion: v2\nname: whole\nversion: 1.0.0\ndependencies: " +
			"[{name: part, version: 1.0.0, alias: db, condition: db.enabled}]\n")},
		"values.yaml":                          {Data: []byte("db: {size: 2}\n")},
		"charts/part/Chart.yaml":               {Data: []byte("apiVersion: v2\nname: part\nversion: 1.0.0\n")},
		"charts/part/values.yaml":              {Data: []byte("size: 1\nauth: {user: a}\n")},
		"charts/part/templates/configmap.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: \"{{ .Values.size }}{{ .Values.auth.user }}\"}\n")},
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	result, err := New(t.Context(), loaded, Options{Chart: "whole", Operator: operator})
	if err != nil {
		t.Fatal(err)
	}
	removed, errs := admit(t, result.Files[0].Content, "{db: {enabled: false, size: a, auth: {usr: b}}, global: {a: 1}, tags: {a: true}}")
	if diff := cmp.Diff([][]string{{"spec.db.auth.usr"}, nil}, [][]string{removed, errs}); diff != "" {
		t.Errorf("removed fields and errors (-want +got):\n%s", diff)
	}
	widened := []string{
		"spec.db.auth.user: values.yaml has a text; the chart may accept other types",
		"spec.db.size: values.yaml has a number; the chart may accept other types",
	}
	if diff := cmp.Diff(widened, result.Widened); diff != "" {
		t.Errorf("widened (-want +got):\n%s", diff)
	}
}

// TestErrors: an error is one line that names the file or flag, and what to do.
func TestErrors(t *testing.T) {
	base := fstest.MapFS{"Chart.yaml": {Data: []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n")}}
	tests := map[string]struct {
		files   map[string]string
		options Options
		want    string
	}{
		"kind":     {options: Options{Kind: "web"}, want: `--kind: "web" is no kind; use CamelCase`},
		"version":  {options: Options{Version: "1"}, want: `--version: "1" is no version of an API; use for example v1alpha1`},
		"group":    {options: Options{Group: "web"}, want: `--group: "web" is no API group; use a domain`},
		"reserved": {options: Options{Group: "apps.k8s.io"}, want: `is reserved for Kubernetes`},
		"plural":   {options: Options{Plural: "Webs"}, want: `--plural: "Webs" is no name of a resource`},
		"values":   {options: Options{Values: []byte("- a")}, want: `--values: `},
		"schema":   {files: map[string]string{"values.schema.json": "[]"}, want: "values.schema.json: "},
		"required": {
			files: map[string]string{"templates/a.yaml": `{{ required "name is required" .Values.name }}`},
			want:  "name is required; name the values that it needs with --values FILE",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{"Chart.yaml": base["Chart.yaml"]}
			for file, text := range test.files {
				files[file] = &fstest.MapFile{Data: []byte(text)}
			}
			loaded, err := chart.LoadFS(files, ".")
			if err != nil {
				t.Fatal(err)
			}
			test.options.Operator = operator
			_, err = New(t.Context(), loaded, test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %v, want one line with %q", err, test.want)
			}
		})
	}
}

// TestReferencesAreNotRead: a reference to an address is not read. Its field takes any value, and a
// note names the address, also for a sub-chart.
func TestReferencesAreNotRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was requested", r.Method, r.URL)
	}))
	defer server.Close()
	refers := func(name string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(`{"properties":{"other":{"$ref":"` + server.URL + "/" + name + `.json#/a"}}}`)}
	}
	loaded, err := chart.LoadFS(fstest.MapFS{
		"Chart.yaml":                    {Data: []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n")},
		"values.yaml":                   {Data: []byte("other: 1\nsub: {other: 1}\n")},
		"values.schema.json":            refers("top"),
		"charts/sub/Chart.yaml":         {Data: []byte("apiVersion: v2\nname: sub\nversion: 1.0.0\n")},
		"charts/sub/values.schema.json": refers("below"),
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	result, err := New(t.Context(), loaded, Options{Operator: operator})
	if err != nil {
		t.Fatal(err)
	}
	want := "values.schema.json refers to " + server.URL + "/below.json, " + server.URL + "/top.json: the operator does not read"
	if !slices.ContainsFunc(result.Notes, func(note string) bool { return strings.HasPrefix(note, want) }) {
		t.Errorf("notes are %q, want one with %q", result.Notes, want)
	}
	if widened := strings.Join(result.Widened, "\n"); !strings.Contains(widened, "leads out of the file") {
		t.Errorf("widened are %q", widened)
	}
}
