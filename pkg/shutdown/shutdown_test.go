// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package shutdown_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/shutdown"
)

func TestWithout(t *testing.T) {
	tests := map[string]struct {
		template, want string
		found          bool
	}{
		"nothing":        {"{}", "{}", false},
		"no pod":         {"{spec: text}", "{spec: text}", false},
		"other fields":   {"{spec: {containers: [{name: a, lifecycle: {postStart: {}}}]}}", "{spec: {containers: [{name: a, lifecycle: {postStart: {}}}]}}", false},
		"a grace period": {"{spec: {terminationGracePeriodSeconds: 35, hostname: a}}", "{spec: {hostname: a}}", true},
		"a hook":         {"{spec: {containers: [{name: a, lifecycle: {preStop: {sleep: {seconds: 5}}}}]}}", "{spec: {containers: [{name: a}]}}", true},
		"a hook beside another": {
			"{spec: {containers: [{name: a}, {name: b, lifecycle: {preStop: {}, postStart: {}}}]}}",
			"{spec: {containers: [{name: a}, {name: b, lifecycle: {postStart: {}}}]}}", true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			template := parse(t, test.template)

			got, found := shutdown.Without(template)

			if diff := cmp.Diff(parse(t, test.want), got); diff != "" || found != test.found {
				t.Errorf("found %t, want %t; rest (-want +got):\n%s", found, test.found, diff)
			}
			if diff := cmp.Diff(parse(t, test.template), template); diff != "" {
				t.Errorf("the template changed:\n%s", diff)
			}
		})
	}
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var parsed map[string]any
	if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}
