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
spec: {message: shown, apiKey: private, values: {pod: [{env: {PIN_TOKEN: 73111}}]}}
`)
	const warning = "warning: masked: demoapp/keyed spec.apiKey, demoapp/keyed spec.values.pod[0].env.PIN_TOKEN; " +
		"do not apply the output, because *** would replace the secrets\n"
	for _, format := range []string{"json", "yaml"} {
		_, out, errOut := w.run(t, "get", "demoapp/keyed", "-o", format)
		expect.Equal(t, "warning", warning, errOut)
		expect.Contains(t, format, out, "shown", "kept", "***")
		expect.Equal(t, "has the secret", false, strings.Contains(out, "private") || strings.Contains(out, "73111"))

		_, out, errOut = w.run(t, "get", "demoapp/keyed", "-o", format, "--show-secrets")
		expect.Contains(t, format+" with secrets", out, "private", "73111")
		expect.Equal(t, "warning", "", errOut)
	}
}

func TestMistypedNames(t *testing.T) {
	w := newReleaseWorld(t)
	tests := []struct {
		args, want string
		code       int
	}{
		{"get -n shp", `error: namespaces "shp" not found; did you mean "shop"?`, 3},
		{"get --chart demo-ap", `--chart: no value "demo-ap"; did you mean "demo-app"?`, 0},
		{"get --chart nothing-like-it", `--chart: no value "nothing-like-it"; use demo-app or demo-app@0.1.0`, 0},
		{"why", "error: name one object as KIND/NAME, as in demoapp/web; kubectl demoapp get lists the objects", 3},
		{"why web", `error: no kind "web"`, 3},
		{"why demoapp", `error: "demoapp" names no object; write demoapp/NAME`, 3},
		{"wait demoapp/web --for=condition=Ready", "error: unknown flag: --for; kubectl demoapp wait --help lists the flags", 3},
		{"restore a b c", "error: name one Backup as NAME or backup/NAME; kubectl demoapp get backup lists them", 3},
		{"diff demoapp web db", "error: name one object as KIND/NAME, as in demoapp/web; kubectl demoapp get lists the objects", 3},
		{"report web", `error: kubectl demoapp report takes no arguments, got "web"; kubectl demoapp report --help lists the flags`, 3},
		{"ui --port 99999", `error: --port: "99999" is not a number from 0 to 65535`, 3},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			code, _, errOut := w.run(t, strings.Fields(test.args)...)

			expect.Equal(t, "exit code", test.code, code)
			expect.Contains(t, "errors", errOut, test.want)
		})
	}
}
