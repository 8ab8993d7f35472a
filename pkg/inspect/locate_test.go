// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"encoding/base64"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
)

// TestHandoverOf finds the release of an object under one of its possible names.
func TestHandoverOf(t *testing.T) {
	t.Parallel()
	const uid = "00000000-0000-0000-0000-000000000001"
	legacy := "web-0000000000000001"
	owned := map[string]string{"engine.demo.example.com/owner": uid}
	tests := []struct {
		name, namespace string
		status          map[string]any
		intended        *inspect.Intended
		records         []runtime.Object
		found, err      string
	}{
		{name: "the name of the object", namespace: "shop", records: records("shop", "web", 2, owned), found: "shop/web 2"},
		{name: "ten revisions", namespace: "shop", records: records("shop", "web", 10, owned), found: "shop/web 10"},
		{
			name: "the name in the status", namespace: "shop", status: map[string]any{"deployedRelease": map[string]any{"name": "other"}},
			records: append(records("shop", "web", 1, nil), records("shop", "other", 1, owned)...), found: "shop/other 1",
		},
		{
			name: "the name of the entry", namespace: "shop", intended: &inspect.Intended{Namespace: "shop", Name: "other"},
			records: append(records("shop", "web", 1, nil), records("shop", "other", 1, nil)...), found: "shop/other 1",
		},
		{
			name: "another name, which names the owner", namespace: "shop", intended: &inspect.Intended{Namespace: "shop", Name: "other"},
			records: append(records("shop", "web", 1, owned), records("shop", "other", 1, nil)...), found: "shop/web 1",
		},
		{name: "operator-sdk before 1.0", namespace: "shop", records: records("shop", legacy, 1, nil), found: "shop/" + legacy + " 1"},
		{
			name: "a cluster-scoped object", records: append(records("a", "web", 1, nil), records("b", "web", 3, owned)...), found: "b/web 3",
		},
		{
			name: "a cluster-scoped object of watches.yaml", intended: &inspect.Intended{Namespace: "a", Name: "web"},
			records: append(records("a", "web", 1, nil), records("b", "web", 3, nil)...), found: "a/web 1",
		},
		{
			name: "a cluster-scoped object without a release", records: records("a", "web", 1, nil),
			err: "Memcached/web has no release: there is no release web or " + legacy + " of it in any namespace",
		},
		{
			name: "no release", namespace: "shop",
			err: "Memcached/web has no release: there is no release web or " + legacy + " in namespace shop",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			object := &unstructured.Unstructured{Object: map[string]any{"kind": "Memcached", "status": test.status}}
			object.SetNamespace(test.namespace)
			object.SetName("web")
			object.SetUID(uid)
			cluster := inspect.New(inspect.Clients{Kubernetes: fake.NewClientset(test.records...)}, types.NamespacedName{})

			release, err := cluster.HandoverOf(t.Context(), object, test.intended)

			if test.err != "" {
				expect.Equal(t, "error", test.err, fmt.Sprint(err))
				return
			}
			expect.NoError(t, err)
			expect.Equal(t, "release", test.found, fmt.Sprintf("%s/%s %d", release.Namespace, release.Name, release.Revision))
		})
	}
}

// records returns the records of a release.
func records(namespace, name string, revisions int, labels map[string]string) []runtime.Object {
	content := []byte(fmt.Sprintf(`{"name": %q, "namespace": %q, "info": {"status": "deployed"}}`, name, namespace))
	var found []runtime.Object
	for revision := range revisions {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, revision+1)},
			Data:       map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(content))},
		}
		secret.Labels = map[string]string{"owner": "helm", "name": name}
		for key, value := range labels {
			secret.Labels[key] = value
		}
		found = append(found, secret)
	}
	return found
}
