// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/cluster"
)

func webApp(image, fields string) string {
	return fmt.Sprintf(`
apiVersion: example.com/v1
kind: WebApp
metadata: {name: web}
spec: {replicas: 1, image: %q%s}
`, image, fields)
}

// TestWebAppRunsStockImage: an image that starts as root, as most images of registries do, serves its page. No request fails during
// an upgrade.
func TestWebAppRunsStockImage(t *testing.T) {
	t.Parallel()
	t.Run("without a level", func(t *testing.T) {
		t.Parallel()
		namespace := shared.CreateNamespace(t, metav1.ObjectMeta{GenerateName: "stock-"})
		startClient(t, namespace)
		apply(t, namespace, webApp("nginx:1.27", ", port: 80"))
		awaitReady(t, namespace, "webapp/web")
		expectPage(t, namespace, "http://web", "Welcome to nginx")
		user, err := kubectl(t.Context(), "exec", "--namespace="+namespace, "deployment/web", "--", "id", "-u")
		if err != nil || strings.TrimSpace(user) != "0" {
			t.Errorf("the user is %q, error %v, want root", user, err)
		}

		stop := load(t, namespace, "http://web")
		apply(t, namespace, webApp("nginx:1.28", ", port: 80"))
		awaitReady(t, namespace, "webapp/web")
		awaitRollout(t, namespace, "web", 1)
		t.Logf("%d requests during the upgrade", stop())
	})
	t.Run("in a restricted namespace", func(t *testing.T) {
		t.Parallel()
		namespace := restricted(t, "stock")
		startClient(t, namespace)
		apply(t, namespace, webApp("nginx:1.27", ", port: 80"))
		awaitRemedy(t, namespace, "web", "set spec.securityContext.runAsUser to a user other than root that the image supports, or use an image")

		apply(t, namespace, webApp("nginxinc/nginx-unprivileged:1.27", ", port: 8080, securityContext: {runAsUser: 101}"))
		awaitReady(t, namespace, "webapp/web")
		expectPage(t, namespace, "http://web:8080", "Welcome to nginx")
	})
}

// awaitRemedy waits until the condition Ready of a WebApp names a remedy.
func awaitRemedy(t *testing.T, namespace, name, remedy string) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "remedy in the status of "+name, func(ctx context.Context) (bool, error) {
		message, err := kubectl(ctx, "get", "--namespace="+namespace, "webapp/"+name, `--output=jsonpath={.status.conditions[?(@.type=="Ready")].message}`)
		if err != nil {
			return false, err
		}
		return strings.Contains(message, remedy), fmt.Errorf("the message is %q", message)
	})
}
