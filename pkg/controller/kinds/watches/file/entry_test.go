// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
)

const fileName = "watches.yaml"

// memcached is the beginning of an entry. Its fields are in line 1.
const memcached = "- {group: cache.my.domain, version: v1, kind: Memcached, chart: helm-charts/memcached"

// environment is the environment of all tests.
func environment(name string) (string, bool) {
	value, set := map[string]string{"IMAGE": "quay.io/team/memcached", "TAG": "1.6", "SECRET": "s3cr3t", "EMPTY": ""}[name]
	return value, set
}

// parseOne parses a file with one valid entry.
func parseOne(t *testing.T, text string) file.Entry {
	t.Helper()
	entries, err := file.Parse(fileName, []byte(text), environment)
	if err != nil || len(entries) != 1 {
		t.Fatalf("got %d entries and error %v, want one entry", len(entries), err)
	}
	return entries[0]
}

// parseField parses an entry with one further field.
func parseField(t *testing.T, text string) file.Entry {
	t.Helper()
	return parseOne(t, memcached+", "+text+"}")
}

func TestDefaults(t *testing.T) {
	entry := parseOne(t, memcached+"}")

	if want := (schema.GroupVersionKind{Group: "cache.my.domain", Version: "v1", Kind: "Memcached"}); entry.GroupVersionKind != want {
		t.Errorf("got kind %s, want %s", entry.GroupVersionKind, want)
	}
	if entry.Chart != "helm-charts/memcached" || !entry.WatchDependentResources || entry.Scope != file.ScopeCluster {
		t.Errorf("got chart %q, watchDependentResources %t, scope %s", entry.Chart, entry.WatchDependentResources, entry.Scope)
	}
	if entry.ReconcilePeriod != nil || entry.MaxConcurrentReconciles != 0 || len(entry.Overrides.Keys()) != 0 {
		t.Errorf("got period %v, %d workers, overrides %s", entry.ReconcilePeriod, entry.MaxConcurrentReconciles, entry.Overrides)
	}
	if !entry.Selector.Matches(labels.Set{"any": "label"}) {
		t.Error("the default selector does not select all resources")
	}
	if entry.ReleaseName != nil || entry.ReleaseNamespace != "" || entry.ServiceAccountName != "" || entry.Values != nil {
		t.Errorf("got releaseName %q, releaseNamespace %q, serviceAccountName %q, values %q",
			entry.ReleaseName, entry.ReleaseNamespace, entry.ServiceAccountName, entry.Values)
	}
	if diff := cmp.Diff(releasev1alpha1.ReleasePolicy{}, entry.Policy); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
}

// TestUpstreamFiles: the files that operator-sdk scaffolds and documents load unchanged.
func TestUpstreamFiles(t *testing.T) {
	tests := []struct {
		name, text string
		kinds      []string
	}{
		{
			name: "memcached of operator-sdk's testdata",
			text: `# Use the 'create api' subcommand to add watches to this file.
- group: cache.example.com
  version: v1alpha1
  kind: Memcached
  chart: helm-charts/memcached
# +kubebuilder:scaffold:watch
`,
			kinds: []string{"Memcached"},
		},
		{
			name: "nginx of the tutorial, by an older version",
			text: `# Use the 'create api' subcommand to add watches to this file.
- group: demo
  version: v1alpha1
  kind: Nginx
  chart: helm-charts/nginx
#+kubebuilder:scaffold:watch
`,
			kinds: []string{"Nginx"},
		},
		{
			name: "reference of watches.yaml",
			text: `# Use the 'create api' subcommand to add watches to this file.
- group: foo.example.com
  version: v1alpha1
  kind: Foo
  chart: helm-charts/foo
  overrideValues:
    image.repository: quay.io/mycustomrepo
  watchDependentResources: false
  selector:
    matchExpressions:
     - {key: testLabel, operator: Exists, values: []}
  dryRunOption: server
`,
			kinds: []string{"Foo"},
		},
		{
			name: "all fields of helm-operator-plugins, without a group",
			text: `---
- version: v1
  kind: Foo
  chart: ../../internal/testdata/foo-0.1.0.tgz
  watchDependentResources: off
  reconcilePeriod: 1m0s
  maxConcurrentReconciles: 4
  overrideValues: &images
    image.repository: $IMAGE
    replicas: 3
  selector:
    matchLabels: {app: foo}
- group: bar.example.com
  version: v1
  kind: Bar
  chart: charts/bar
  overrideValues: *images
  selector:
---
`,
			kinds: []string{"Foo", "Bar"},
		},
		{name: "no watches", text: "[]\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			entries, err := file.Parse(fileName, []byte(test.text), environment)
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, entry := range entries {
				kinds = append(kinds, entry.GroupVersionKind.Kind)
			}
			if diff := cmp.Diff(test.kinds, kinds); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFields has a row for each field and each form of its value.
func TestFields(t *testing.T) {
	retries, history := int32(3), int32(100)
	tests := []struct {
		name, field string
		get         func(file.Entry) any
		want        any
	}{
		{"drift watched", "watchDependentResources: true", func(e file.Entry) any { return e.WatchDependentResources }, true},
		{"drift not watched", "watchDependentResources: false", func(e file.Entry) any { return e.WatchDependentResources }, false},
		{"a word of YAML 1.1", "watchDependentResources: no", func(e file.Entry) any { return e.WatchDependentResources }, false},
		{"null is the default", "watchDependentResources: null", func(e file.Entry) any { return e.WatchDependentResources }, true},
		{"period", "reconcilePeriod: 1h30m", func(e file.Entry) any { return *e.ReconcilePeriod }, 90 * time.Minute},
		{"no period", "reconcilePeriod: 0s", func(e file.Entry) any { return *e.ReconcilePeriod }, time.Duration(0)},
		{"workers", "maxConcurrentReconciles: 4", func(e file.Entry) any { return e.MaxConcurrentReconciles }, 4},
		{"labels", "selector: {matchLabels: {tier: cache}}", func(e file.Entry) any { return e.Selector.String() }, "tier=cache"},
		{
			"expressions", "selector: {matchExpressions: [{key: tier, operator: In, values: [a, b]}, {key: old, operator: DoesNotExist}]}",
			func(e file.Entry) any { return e.Selector.String() }, "!old,tier in (a,b)",
		},
		{"empty selector", "selector: {}", func(e file.Entry) any { return e.Selector.Empty() }, true},
		{"dry run", "dryRunOption: server", func(e file.Entry) any { return e.DryRunOption }, "server"},
		{"release name", `releaseName: "{{ .metadata.name }}"`, func(e file.Entry) any { return e.ReleaseName.String() }, "{{ .metadata.name }}"},
		{"release namespace", "releaseNamespace: caches", func(e file.Entry) any { return e.ReleaseNamespace }, "caches"},
		{"scope of a namespace", "scope: Namespace", func(e file.Entry) any { return e.Scope }, file.ScopeNamespace},
		{"scope of the cluster", "scope: Cluster", func(e file.Entry) any { return e.Scope }, file.ScopeCluster},
		{"account", "serviceAccountName: installer.v2", func(e file.Entry) any { return e.ServiceAccountName }, "installer.v2"},
		{"validation of fields", "fieldValidation: Warn", func(e file.Entry) any { return e.FieldValidation }, "Warn"},
		{"overrides with types", "overrideValuesAs: Typed", func(e file.Entry) any { return e.OverridesAs }, file.OverridesTyped},
		{"overrides as texts", "overrideValuesAs: Text", func(e file.Entry) any { return e.OverridesAs }, file.OverridesText},
		{"takeover", "takeover: true", func(e file.Entry) any { return e.Takeover }, true},
		{"default rollout", "rollout: {}", func(e file.Entry) any { return e.Rollout }, file.Rollout{}},
		{"rollout", "rollout: {maxConcurrent: 5, maxFailures: 0}", func(e file.Entry) any { return e.Rollout }, file.Rollout{MaxConcurrent: 5, MaxFailures: -1}},
		{"values", "values: 'a: {{ .spec }}'", func(e file.Entry) any { return e.Values.String() }, "a: {{ .spec }}"},
		{
			"default drift", "drift: {}", func(e file.Entry) any { return e.Policy.Drift },
			&releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftCorrect, ForeignFields: releasev1alpha1.ForeignFieldsKeep},
		},
		{
			"drift", "drift: {mode: Warn, foreignFields: Remove, ignore: [{kind: Deployment, name: web, paths: [/spec/replicas]}]}",
			func(e file.Entry) any { return e.Policy.Drift },
			&releasev1alpha1.DriftPolicy{
				Mode: releasev1alpha1.DriftWarn, ForeignFields: releasev1alpha1.ForeignFieldsRemove,
				Ignore: []releasev1alpha1.DriftIgnore{{Kind: "Deployment", Name: "web", Paths: []string{"/spec/replicas"}}},
			},
		},
		{
			"default remediation", "remediation: {}", func(e file.Entry) any { return e.Policy.Remediation },
			&releasev1alpha1.Remediation{Retries: &retries, Strategy: releasev1alpha1.RemediationRollback},
		},
		{
			"remediation", "remediation: {retries: 0, strategy: None}", func(e file.Entry) any { return e.Policy.Remediation },
			&releasev1alpha1.Remediation{Retries: new(int32), Strategy: releasev1alpha1.RemediationNone},
		},
		{"history", "maxHistory: 100", func(e file.Entry) any { return e.Policy.MaxHistory }, &history},
		{"timeout", "timeout: 24h", func(e file.Entry) any { return e.Policy.Timeout }, &metav1.Duration{Duration: 24 * time.Hour}},
		{"health", "waitForReady: true", func(e file.Entry) any { return e.Policy.WaitForReady }, true},
		{"merge key", "<<: {timeout: 1s, scope: Namespace}, scope: Cluster", func(e file.Entry) any {
			return e.Policy.Timeout.Duration.String() + " " + string(e.Scope)
		}, "1s Cluster"},
		{"merge list", "<<: [{scope: Namespace}, {scope: Cluster, timeout: 1s}]", func(e file.Entry) any {
			return e.Policy.Timeout.Duration.String() + " " + string(e.Scope)
		}, "1s Namespace"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			entry := parseField(t, test.field)

			if diff := cmp.Diff(test.want, test.get(entry)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.field, diff)
			}
		})
	}
}

// TestAllErrorsAtOnce: one run reports all errors, sorted by line, and returns the entries that
// have none.
func TestAllErrorsAtOnce(t *testing.T) {
	const text = `- group: cache.my.domain
  version: v1
  kind: Memcached
  chart: helm-charts/memcached
- group: cache.my.domain
  reconcilePeriod: 5 minutes
  version: v1
  kind: Redis
  scop: Namespace
- chart: ""
  maxConcurrentReconciles: 0
- group: cache.my.domain
  version: v1
  kind: Redis
  chart: charts/redis
`
	const want = `watches.yaml:5: entry 2 (cache.my.domain/v1 Redis): chart: must not be empty; write a directory, an archive or a URL
watches.yaml:6: entry 2 (cache.my.domain/v1 Redis): reconcilePeriod: "5 minutes" is not a duration; use for example 5m
watches.yaml:9: entry 2 (cache.my.domain/v1 Redis): scop: is not a known field; did you mean scope?
watches.yaml:10: entry 3: chart: must not be empty; write a directory, an archive or a URL
watches.yaml:10: entry 3: version: must not be empty; write that of the CustomResourceDefinition
watches.yaml:10: entry 3: kind: must not be empty; write that of the CustomResourceDefinition
watches.yaml:11: entry 3: maxConcurrentReconciles: must be a whole number from 1 to 1000, got 0
watches.yaml:14: entry 4 (cache.my.domain/v1 Redis): kind: is already the kind of entry 2 in line 5; a kind has one entry`

	entries, err := file.Parse(fileName, []byte(text), environment)

	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if len(entries) != 1 || entries[0].GroupVersionKind.Kind != "Memcached" {
		t.Errorf("got entries %+v, want Memcached", entries)
	}
	var located *file.Error
	if !errors.As(err, &located) || located.Line != 5 || located.Entry != 2 || located.Field != "chart" {
		t.Errorf("got %+v, want an Error of entry 2", located)
	}
}

// TestErrors has a row for each error of a field.
func TestErrors(t *testing.T) {
	rules := strings.Repeat("{kind: A, paths: [/a]}, ", 33)
	tests := []struct{ name, field, want string }{
		{"unknown field", "unknown: 1", "unknown: is not a known field; the fields here are chart, drift"},
		{"misspelled field", "overideValues: {}", "overideValues: is not a known field; did you mean overrideValues?"},
		{"field in lower case", "releasename: a", "releasename: is not a known field; did you mean releaseName?"},
		{"field of the Ansible operator", "playbook: a.yml", "playbook: is not a known field; the fields here are"},
		{"key twice", "timeout: 1s, timeout: 2s", "timeout: is already set in line 1; remove one of them"},
		{"key that is a list", "[a]: b", "has a list as a key; a key must be a text"},
		{"text for a boolean", `watchDependentResources: "true"`, `watchDependentResources: must be true or false, got the text "true"`},
		{"number for a boolean", "waitForReady: 1", "waitForReady: must be true or false, got 1"},
		{"number for a text", "releaseNamespace: 5", "releaseNamespace: must be a text, got 5; put it in quotes"},
		{"list for a text", "scope: [Cluster]", "scope: must be a text, got a list"},
		{"number for an object", "drift: 1", "drift: must be an object (key: value), got 1"},
		{"object for a list", "drift: {ignore: {}}", "drift.ignore: must be a list, got an object"},
		{"object for a duration", "timeout: {}", "timeout: must be a duration such as 5m, got an object"},
		{"period in words", "reconcilePeriod: 5 minutes", `reconcilePeriod: "5 minutes" is not a duration; use for example 5m`},
		{"period without a unit", "reconcilePeriod: 60", `reconcilePeriod: "60" is not a duration; use for example 5m`},
		{"negative period", "reconcilePeriod: -5m", `reconcilePeriod: must be from 0s to 8760h, got "-5m"`},
		{"period too short", "reconcilePeriod: 1ms", `reconcilePeriod: must be 0 or from 1s to 8760h, got "1ms"`},
		{"no workers", "maxConcurrentReconciles: 0", "maxConcurrentReconciles: must be a whole number from 1 to 1000, got 0"},
		{"negative workers", "maxConcurrentReconciles: -1", "maxConcurrentReconciles: must be a whole number from 1 to 1000, got -1"},
		{"half a worker", "maxConcurrentReconciles: 1.5", "maxConcurrentReconciles: must be a whole number from 1 to 1000, got 1.5"},
		{"workers as text", "maxConcurrentReconciles: two", `maxConcurrentReconciles: must be a whole number from 1 to 1000, got the text "two"`},
		{"too many workers", "maxConcurrentReconciles: 99999999999", "maxConcurrentReconciles: must be a whole number from 1 to 1000, got 99999999999"},
		{"unknown field of a selector", "selector: {labels: {}}", "selector.labels: is not a known field; the fields here are matchExpressions, matchLabels"},
		{"value of a label", "selector: {matchLabels: {a: 5}}", "selector.matchLabels[a]: must be a text, got 5; put it in quotes"},
		{"invalid label", "selector: {matchLabels: {a: '!'}}", "selector: is not a valid label selector: "},
		{"operator", "selector: {matchExpressions: [{key: a, operator: Is}]}", `operator: must be In, NotIn, Exists or DoesNotExist, got "Is"`},
		{"values of Exists", "selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}", "selector: is not a valid label selector: "},
		{"unclosed template", `releaseName: "{{ .metadata.name"`, "releaseName: is not a valid Go template: template: releaseName:1: unclosed action"},
		{"unknown function", `releaseName: "{{ env .metadata.name }}"`, `releaseName: is not a valid Go template: template: releaseName:1: function "env" not defined`},
		{"empty template", `releaseName: ""`, "releaseName: must have 1 to 4096 bytes, got 0"},
		{"namespace in upper case", "releaseNamespace: Caches", `releaseNamespace: "Caches" is invalid: `},
		{"unknown scope", "scope: All", `scope: must be Namespace or Cluster, got "All"`},
		{"empty scope", `scope: ""`, `scope: must be Namespace or Cluster, got ""`},
		{"unknown dry run", "dryRunOption: bogus", `dryRunOption: must be client, server or none, got "bogus"`},
		{"invalid account", "serviceAccountName: a/b", `serviceAccountName: "a/b" is invalid: `},
		{
			"CEL object", `values: '{"size": self.spec.size, "name": self.metadata.name}'`,
			`values: has no {{ }}; it is a Go template that yields YAML, and no longer a CEL expression: write for example {"size": {{ .spec.size }}, "name": {{ .metadata.name }}}`,
		},
		{"CEL field", "values: self.spec.values", "no longer a CEL expression: write for example {{ .spec.values }}"},
		{"CEL function", `values: '{"size": int(self.spec.size)}'`, "no longer a CEL expression: write for example replicaCount: {{ .spec.size }}"},
		{"long CEL expression", "values: self." + strings.Repeat("a", 1000), "no longer a CEL expression: write for example replicaCount: {{ .spec.size }}"},
		{"values without a template", "values: 'a: 1'", "values: has no {{ }}; it is a Go template"},
		{"values as an object", "values: {size: 1}", `values: must be a text, got an object; write "values: |" and indent the object below it`},
		{"values as a list", "values: [1]", "values: must be a text, got a list"},
		{"unclosed template of values", `values: "a: 1\nb: {{ .spec"`, "values: is not a valid template: line 2: unclosed action"},
		{"function that values lack", `values: '{{ env "HOME" }}'`, `values: is not a valid template: line 1: function "env" not defined: the functions are add, and, `},
		{"definition in values", `values: '{{ define "a" }}{{ end }}'`, "values: is not a valid template: define, block and template are not available"},
		{"values too long", "values: " + strings.Repeat("a", 1<<15+1), "values: has 32769 bytes, and may have 32768"},
		{"unknown mode", "drift: {mode: On}", `drift.mode: must be Correct, Warn or Off, got "On"`},
		{"unknown foreignFields", "drift: {foreignFields: Drop}", `drift.foreignFields: must be Keep or Remove, got "Drop"`},
		{"rule without paths", "drift: {ignore: [{kind: A}]}", "drift.ignore[0]: must have a kind and at least one path"},
		{"rule without a kind", "drift: {ignore: [{paths: [/a]}]}", "drift.ignore[0]: must have a kind and at least one path"},
		{"no JSON pointer", "drift: {ignore: [{kind: A, paths: [/a, b]}]}", `drift.ignore[0].paths[1]: "b" is not a JSON pointer such as /spec/replicas`},
		{"too many rules", "drift: {ignore: [" + rules + "]}", "drift.ignore: has 33 items, and may have 32"},
		{"kind too long", "drift: {ignore: [{kind: " + strings.Repeat("k", 64) + "}]}", "drift.ignore[0].kind: must have 1 to 63 characters, got 64"},
		{"negative retries", "remediation: {retries: -1}", "remediation.retries: must be a whole number from 0 to 100, got -1"},
		{"too many retries", "remediation: {retries: 101}", "remediation.retries: must be a whole number from 0 to 100, got 101"},
		{"unknown strategy", "remediation: {strategy: rollback}", `remediation.strategy: must be Rollback or None, got "rollback"`},
		{"no history", "maxHistory: 0", "maxHistory: must be a whole number from 1 to 100, got 0"},
		{"too much history", "maxHistory: 101", "maxHistory: must be a whole number from 1 to 100, got 101"},
		{"no timeout", "timeout: 0s", `timeout: must be from 1s to 24h, got "0s"`},
		{"timeout too long", "timeout: 25h", `timeout: must be from 1s to 24h, got "25h"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			entries, err := file.Parse(fileName, []byte(memcached+", "+test.field+"}"), environment)

			const place = "watches.yaml:1: entry 1 (cache.my.domain/v1 Memcached): "
			if text := fmt.Sprint(err); !strings.HasPrefix(text, place) || !strings.Contains(text, test.want) || strings.Contains(text, "\n") {
				t.Errorf("got %v\nwant %s%s", err, place, test.want)
			}
			if len(entries) != 0 {
				t.Errorf("got entries %v, want none", entries)
			}
		})
	}
}

// TestErrorsOfKinds: the fields that name the kind and the chart of an entry are required and valid.
func TestErrorsOfKinds(t *testing.T) {
	tests := []struct{ name, entry, want string }{
		{"no version", "{group: a.b, kind: C, chart: d}", "entry 1 (a.b C): version: must not be empty; write that of the CustomResourceDefinition"},
		{"empty version", `{group: a.b, version: "", kind: C, chart: d}`, "version: must not be empty; write that of the CustomResourceDefinition"},
		{"null as version", "{group: a.b, version: , kind: C, chart: d}", "version: must not be empty; write that of the CustomResourceDefinition"},
		{"no kind", "{version: v1, chart: d}", "entry 1 (v1): kind: must not be empty; write that of the CustomResourceDefinition"},
		{"empty kind", `{version: v1, kind: "", chart: d}`, "kind: must not be empty; write that of the CustomResourceDefinition"},
		{"no chart", "{version: v1, kind: C}", "entry 1 (v1 C): chart: must not be empty; write a directory, an archive or a URL"},
		{"empty chart", `{version: v1, kind: C, chart: " "}`, "chart: must not be empty; write a directory, an archive or a URL"},
		{"chart with a line break", `{version: v1, kind: C, chart: "a\nb"}`, "chart: must not have line breaks and other control characters"},
		{"chart too long", "{version: v1, kind: C, chart: " + strings.Repeat("c", 2049) + "}", "chart: has 2049 bytes, and may have 2048"},
		{"group in upper case", "{group: A.b, version: v1, kind: C, chart: d}", `group: "A.b" is invalid: `},
		{"version with a dot", "{version: v1.2, kind: C, chart: d}", `version: "v1.2" is invalid: `},
		{"version as number", "{version: 1, kind: C, chart: d}", "version: must be a text, got 1; put it in quotes"},
		{"kind with a dash at its end", "{version: v1, kind: C-, chart: d}", `kind: "C-" is not a kind; a kind has letters and digits, such as Memcached`},
		{"entry that is a text", "Memcached", `watches.yaml:1: entry 1: must be an object (key: value), got the text "Memcached"`},
		{"entry that is empty", "", "watches.yaml:1: entry 1: must be an object (key: value), got nothing"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := file.Parse(fileName, []byte("- "+test.entry), environment)

			if text := fmt.Sprint(err); !strings.Contains(text, test.want) || strings.Contains(text, "\n") {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

// TestErrorsOfDocument: a document that is not a list of entries, or exceeds a limit, is one error.
func TestErrorsOfDocument(t *testing.T) {
	bomb := "- &a [x, x, x, x, x, x, x, x, x]\n"
	for i := 'b'; i < 'k'; i++ {
		bomb += fmt.Sprintf("- &%c [%s]\n", i, strings.TrimSuffix(strings.Repeat("*"+string(i-1)+", ", 9), ", "))
	}
	tests := []struct{ name, text, want string }{
		{"empty", "", "watches.yaml: is empty; write [] if nothing is to be watched"},
		{"only comments", "# a\n---\n", "watches.yaml: is empty; write [] if nothing is to be watched"},
		{"object", "a: 1", "watches.yaml:1: must be a list, got an object"},
		{"text", "a", `watches.yaml:1: must be a list, got the text "a"`},
		{"syntax", "- a\n- {b: c\n", "watches.yaml:2: is not valid YAML: "},
		{"binary", "\x00\xff", "watches.yaml: is not valid YAML: "},
		{"unknown alias", "- *x", "watches.yaml: is not valid YAML: unknown anchor 'x' referenced"},
		{"two documents", "- a\n---\n- b\n", "watches.yaml:3: has several YAML documents; put all entries into one list"},
		{"aliases that grow", bomb, "has more than 100000 keys, scalars, lists and objects, aliases expanded; make it smaller"},
		{"alias within itself", "- &a [*a]", "watches.yaml:1: has lists and objects more than 32 deep; make it flatter"},
		{"too deep", strings.Repeat("[", 34) + strings.Repeat("]", 34), "watches.yaml:1: has lists and objects more than 32 deep; make it flatter"},
		{"too large", strings.Repeat("#", file.MaxBytes+1), "watches.yaml: has more than 1048576 bytes; make it smaller"},
		{"too many nodes", "[" + strings.Repeat("a,", 100_001) + "]", "watches.yaml: has 100002 of the characters that structure YAML"},
		{"too many entries", strings.Repeat("- a\n", file.MaxEntries+1), "watches.yaml:1: has 1001 items, and may have 1000"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			entries, err := file.Parse(fileName, []byte(test.text), environment)

			if text := fmt.Sprint(err); !strings.Contains(text, test.want) || strings.Contains(text, "\n") {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
			if len(entries) != 0 {
				t.Errorf("got entries %v, want none", entries)
			}
		})
	}
}

// TestManyErrors: a file in which all is wrong does not flood the log.
func TestManyErrors(t *testing.T) {
	text := strings.Repeat("- {version: v1, kind: A, chart: b, x: 1}\n", 300)

	_, err := file.Parse(fileName, []byte(text), environment)

	lines := strings.Split(fmt.Sprint(err), "\n")
	if last := lines[len(lines)-1]; len(lines) != 101 || last != "watches.yaml: 499 more errors are not listed" {
		t.Errorf("got %d lines, the last is %q", len(lines), last)
	}
}

// TestErrorOfCaller: errors that the caller finds, such as a chart that does not load, are sorted
// among the errors of Parse.
func TestErrorOfCaller(t *testing.T) {
	errBroken := errors.New("is not\na chart")
	entries, err := file.Parse(fileName, []byte(memcached+"}\n- {version: v1, kind: A}\n- version: v1\n  kind: B\n  chart: b"), environment)

	joined := file.Join(err, entries[1].At("chart", errBroken), entries[0].At("overrideValues[a]", errBroken), errors.New("another"), nil)

	const want = `watches.yaml:1: entry 1 (cache.my.domain/v1 Memcached): overrideValues[a]: is not a chart
watches.yaml:2: entry 2 (v1 A): chart: must not be empty; write a directory, an archive or a URL
watches.yaml:5: entry 3 (v1 B): chart: is not a chart
another`
	if diff := cmp.Diff(want, fmt.Sprint(joined)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if !errors.Is(joined, errBroken) {
		t.Error("the error of the caller is lost")
	}
	if err := file.Join(nil, nil); err != nil {
		t.Errorf("got %v for no errors", err)
	}
}

// TestErrorWithoutFile: an error of an entry of a program has no line, but the kind.
func TestErrorWithoutFile(t *testing.T) {
	entry := file.Entry{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "A"}}

	if err := entry.At("chart", errors.New("is missing")); err.Error() != "v1 A: chart: is missing" {
		t.Errorf("got %v", err)
	}
}

func TestEqual(t *testing.T) {
	const changed, same = false, true
	tests := []struct {
		name, text string
		want       bool
	}{
		{"comment and order of keys", "# A comment\n- {version: v1, chart: helm-charts/memcached, kind: Memcached, group: cache.my.domain}", same},
		{"default written out", memcached + ", scope: Cluster, watchDependentResources: true, selector: {}}", same},
		{"dryRunOption", memcached + ", dryRunOption: server}", same},
		{"later in the file", "- {version: v1, kind: A, chart: b}\n" + memcached + "}", same},
		{"version", "- {group: cache.my.domain, version: v2, kind: Memcached, chart: helm-charts/memcached}", changed},
		{"chart", "- {group: cache.my.domain, version: v1, kind: Memcached, chart: helm-charts/other}", changed},
		{"watchDependentResources", memcached + ", watchDependentResources: false}", changed},
		{"override", memcached + ", overrideValues: {a: b}}", changed},
		{"period", memcached + ", reconcilePeriod: 1m}", changed},
		{"no period", memcached + ", reconcilePeriod: 0s}", changed},
		{"workers", memcached + ", maxConcurrentReconciles: 2}", changed},
		{"selector", memcached + ", selector: {matchLabels: {a: b}}}", changed},
		{"release name", memcached + `, releaseName: "{{ .metadata.uid }}"}`, changed},
		{"release namespace", memcached + ", releaseNamespace: a}", changed},
		{"scope", memcached + ", scope: Namespace}", changed},
		{"account", memcached + ", serviceAccountName: a}", changed},
		{"takeover", memcached + ", takeover: true}", changed},
		{"drift", memcached + ", drift: {mode: Off}}", changed},
		{"values", memcached + ", values: '{{ .spec }}'}", changed},
	}
	original := parseOne(t, memcached+"}")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			entries, err := file.Parse(fileName, []byte(test.text), environment)
			if err != nil {
				t.Fatal(err)
			}
			if got := original.Identity() == entries[len(entries)-1].Identity(); got != test.want {
				t.Errorf("got equal: %t, want %t", got, test.want)
			}
		})
	}
}

// TestEqualRandomOverride: a template with a random function does not restart its entry with each
// version of the file.
func TestEqualRandomOverride(t *testing.T) {
	const random = `overrideValues: {password: "{{ randAlphaNum 32 }}"}`

	one, other := parseField(t, random), parseField(t, random)

	if maps.Equal(one.Overrides.Values(), other.Overrides.Values()) {
		t.Fatal("the override is not random")
	}
	if one.Identity() != other.Identity() {
		t.Error("equal entries are not equal")
	}
}
