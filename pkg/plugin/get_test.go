// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/expect"
)

// TestSecretsOfObjectsAreMasked: also those that kubectl apply repeats in an annotation.
func TestSecretsOfObjectsAreMasked(t *testing.T) {
	w := newReleaseWorld(t)
	w.create(t, `
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata:
  namespace: shop
  name: keyed
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"apiKey":"private"}}', other: kept}
spec: {message: shown, apiKey: private}
`)
	for _, format := range []string{"json", "yaml"} {
		_, out, _ := w.run(t, "get", "demoapp/keyed", "-o", format)
		expect.Contains(t, format, out, "shown", "kept", "***")
		expect.Equal(t, "has the secret", false, strings.Contains(out, "private"))

		_, out, _ = w.run(t, "get", "demoapp/keyed", "-o", format, "--show-secrets")
		expect.Contains(t, format+" with secrets", out, "private")
	}
}

func TestNamesOfGet(t *testing.T) {
	w := newReleaseWorld(t)
	tests := map[string]string{
		"get -n shp":  `error: namespaces "shp" not found; did you mean "shop"?`,
		"why web":     `error: no kind "web"`,
		"why demoapp": `error: "demoapp" names no object; write demoapp/NAME`,
	}
	for args, want := range tests {
		t.Run(args, func(t *testing.T) {
			code, _, errOut := w.run(t, strings.Fields(args)...)

			expect.Equal(t, "exit code", 3, code)
			expect.Contains(t, "errors", errOut, want)
		})
	}
}
