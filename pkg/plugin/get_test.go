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
