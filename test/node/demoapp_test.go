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

// TestDemoAppServesItsMessage: the Service answers with the message. No request fails during an upgrade and the correction of a
// changed pod template.
func TestDemoAppServesItsMessage(t *testing.T) {
	for _, replicas := range []int32{1, 3} {
		t.Run(fmt.Sprintf("%d replicas", replicas), func(t *testing.T) {
			t.Parallel()
			namespace := restricted(t, "upgrade")
			startClient(t, namespace)
			demoApp := func(message string) string {
				return fmt.Sprintf(`
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {name: shop}
spec: {replicaCount: %d, image: "nginx:1.27-alpine", message: %q, apiKey: verysecret}
`, replicas, message)
			}
			apply(t, namespace, demoApp("before"))
			awaitReady(t, namespace, "demoapp/shop")
			expectPage(t, namespace, "http://shop", "before")

			stop := load(t, namespace, "http://shop")
			apply(t, namespace, demoApp("after"))
			awaitReady(t, namespace, "demoapp/shop")
			awaitRollout(t, namespace, "shop", replicas)
			expectPage(t, namespace, "http://shop", "after")

			if _, err := kubectl(t.Context(), "set", "image", "--namespace="+namespace, "deployment/shop", "web=nginx:1.28-alpine"); err != nil {
				t.Fatal(err)
			}
			awaitImage(t, namespace, "shop", "nginx:1.27-alpine")
			awaitRollout(t, namespace, "shop", replicas)
			if count := stop(); count < leastRequests {
				t.Errorf("%d requests during the changes, want at least %d", count, leastRequests)
			} else {
				t.Logf("%d requests during the changes", count)
			}
			expectPage(t, namespace, "http://shop", "after")
		})
	}
}

// leastRequests is the number of requests that a client makes at least while pods are replaced twice.
const leastRequests = 100

// awaitImage waits until the first container of a Deployment has this image again.
func awaitImage(t *testing.T, namespace, name, image string) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "image of "+name, func(ctx context.Context) (bool, error) {
		d, err := shared.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		got := d.Spec.Template.Spec.Containers[0].Image
		return got == image, fmt.Errorf("the image is %s", got)
	})
}

// expectPage waits until the page of a URL has a text: the rules of a node follow the readiness of pods.
func expectPage(t *testing.T, namespace, url, want string) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "page of "+url, func(context.Context) (bool, error) {
		page, err := get(t, namespace, url)
		if err == nil && !strings.Contains(page, want) {
			err = fmt.Errorf("it lacks %q: %s", want, page)
		}
		return err == nil, err
	})
}
