// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/cluster"
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
	if _, err := kubectl(t.Context(), "wait", "--namespace="+namespace, "pod/client", "--for=condition=Ready", "--timeout="+waitTimeout.String()); err != nil {
		t.Fatal(err)
	}
}

// load asks for a URL as fast as a pod can, until stop is called. stop returns the number of requests.
// A request that fails is an error of the test.
func load(t *testing.T, namespace, url string) (stop func() int) {
	t.Helper()
	const script = `rm -f /tmp/stop; n=0; touch /tmp/begun
		while [ ! -e /tmp/stop ]; do
			n=$((n+1))
			timeout 5 wget -q -O /dev/null "$0" 2>/tmp/error || echo "$(date +%T) request $n: $(cat /tmp/error)"
		done
		echo "requests $n"`
	type result struct {
		output string
		err    error
	}
	ended := make(chan result, 1)
	go func() {
		output, err := execute(t, namespace, "client", "sh", "-c", script, url)
		ended <- result{output, err}
	}()
	cluster.Eventually(t.Context(), t, "requests for "+url, func(context.Context) (bool, error) {
		_, err := execute(t, namespace, "client", "test", "-e", "/tmp/begun")
		return err == nil, err
	})
	return func() int {
		t.Helper()
		if _, err := execute(t, namespace, "client", "sh", "-c", "touch /tmp/stop; rm /tmp/begun"); err != nil {
			t.Fatal(err)
		}
		got := <-ended
		if got.err != nil {
			t.Fatal(got.err)
		}
		failed, count, _ := strings.Cut(got.output, "requests ")
		number, err := strconv.Atoi(strings.TrimSpace(count))
		if err != nil {
			t.Fatalf("requests for %s: %v\n%s", url, err, got.output)
		}
		if failed != "" {
			t.Errorf("of %d requests for %s failed:\n%s", number, url, failed)
		}
		return number
	}
}

// get returns the page of a URL.
func get(t *testing.T, namespace, url string) (string, error) {
	t.Helper()
	return execute(t, namespace, "client", "timeout", "5", "wget", "-q", "-O", "-", url)
}
