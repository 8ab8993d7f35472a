// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"testing"
)

// startClient starts a pod with busybox, and waits until it runs.
func startClient(t *testing.T, namespace string) {
	t.Helper()
	apply(t, namespace, `
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: client
    image: busybox:1.37
    command: [sleep, "86400"]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`)
	if _, err := kubectl(t.Context(), "wait", "--namespace="+namespace, "pod/client", "--for=condition=Ready", "--timeout=2m"); err != nil {
		t.Fatal(err)
	}
}

// get returns the page of a URL.
func get(t *testing.T, namespace, url string) (string, error) {
	t.Helper()
	return execute(t, namespace, "client", "timeout", "5", "wget", "-q", "-O", "-", url)
}
