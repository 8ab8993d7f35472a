// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
	"github.com/example/demoapp-controller/test/crd"
)

// TestPolicyLikeAPI: the file accepts the same policies as the API server in the spec of a DemoApp,
// with the same result, and refuses the rest.
func TestPolicyLikeAPI(t *testing.T) {
	path := func(path string) string { return fmt.Sprintf("drift: {ignore: [{kind: A, paths: [%q]}]}", path) }
	tests := []string{
		"timeout: 1s", "timeout: 999ms", "timeout: 24h", "timeout: 24h0m1s", "timeout: 0.5h", "timeout: 90", "timeout: -5m", "timeout: ''",
		"waitForReady: true", "waitForReady: 'true'",
		"maxHistory: 1", "maxHistory: 0", "maxHistory: 100", "maxHistory: 101", "maxHistory: -1", "maxHistory: 1.5", "maxHistory: '1'",
		"remediation: {}", "remediation: {retries: 0}", "remediation: {retries: -1}", "remediation: {retries: 100}",
		"remediation: {retries: 101}", "remediation: {strategy: None}", "remediation: {strategy: ''}", "remediation: []",
		"drift: {}", "drift: {mode: 'Off'}", "drift: {mode: 'off'}", "drift: {mode: ''}", "drift: {foreignFields: Remove}",
		"drift: {foreignFields: remove}", "drift: {ignore: []}", "drift: {ignore: {}}",
		"drift: {ignore: [{kind: A, paths: [/a]}]}", "drift: {ignore: [{kind: A, name: b, paths: [/a, /b/0]}]}",
		"drift: {ignore: [{kind: A}]}", "drift: {ignore: [{kind: A, paths: []}]}", "drift: {ignore: [{paths: [/a]}]}",
		"drift: {ignore: [{kind: '', paths: [/a]}]}", "drift: {ignore: [{kind: A, name: '', paths: [/a]}]}",
		"drift: {ignore: [{kind: " + strings.Repeat("k", 63) + ", paths: [/a]}]}", "drift: {ignore: [{kind: " + strings.Repeat("k", 64) + ", paths: [/a]}]}",
		"drift: {ignore: [{kind: A, name: " + strings.Repeat("n", 253) + ", paths: [/a]}]}",
		"drift: {ignore: [{kind: A, name: " + strings.Repeat("n", 254) + ", paths: [/a]}]}",
		"drift: {ignore: [" + strings.Repeat("{kind: A, paths: [/a]}, ", 32) + "]}", "drift: {ignore: [" + strings.Repeat("{kind: A, paths: [/a]}, ", 33) + "]}",
		"drift: {ignore: [{kind: A, paths: [" + strings.Repeat("/a, ", 32) + "]}]}", "drift: {ignore: [{kind: A, paths: [" + strings.Repeat("/a, ", 33) + "]}]}",
		path("/" + strings.Repeat("a", 511)), path("/" + strings.Repeat("a", 512)), path("/"), path("a"), path("/a/"), path("/a~b"), path("/a~1b"),
		path("/apiVersion"), path("/kind"), path("/kind/x"), path("/kinds"), path("/metadata"), path("/metadata/name"), path("/metadata/labels"),
		path("/metadata/labels/team"), path("/metadata/annotations"), path("/metadata/annotations/a"),
		path("/metadata/labels/app.kubernetes.io~1managed-by"), path("/metadata/labels/app.kubernetes.io~1managed-by-us"),
		path("/metadata/annotations/meta.helm.sh~1release-name"), path("/metadata/annotations/meta.helm.sh~1release-namespace/x"),
	}
	definition := crd.Load(t, "artifacts/crds/demo.example.com_demoapps.yaml")
	for _, policy := range tests {
		t.Run(policy[:min(len(policy), 60)], func(t *testing.T) {
			object := definition.Object(t, "web", "{apiKey: verysecret, "+policy+"}")
			refused := definition.Admit(t, object).ToAggregate()

			entries, err := file.Parse(fileName, []byte(memcached+", "+policy+"}"), environment)

			if (err == nil) != (refused == nil) {
				t.Fatalf("got error %v, and the API server gives %v", err, refused)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(policyOf(t, object), entries[0].Policy, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("policy (-API +file):\n%s", diff)
			}
		})
	}
}

// policyOf returns the policy in the spec of an object, after the API server has set its defaults.
func policyOf(t *testing.T, object map[string]any) releasev1alpha1.ReleasePolicy {
	t.Helper()
	text, err := json.Marshal(object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var policy releasev1alpha1.ReleasePolicy
	if err := json.Unmarshal(text, &policy); err != nil {
		t.Fatal(err)
	}
	return policy
}
