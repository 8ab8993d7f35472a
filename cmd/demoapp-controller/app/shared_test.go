// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	appv1 "github.com/example/demoapp-controller/pkg/apis/app/v1"
	demofake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
)

// TestTypedInformersAreSlim: the informers of the operator's own kinds keep no metadata that
// nothing reads.
func TestTypedInformersAreSlim(t *testing.T) {
	identity := metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1"}
	stored := &appv1.AppStack{ObjectMeta: identity}
	stored.Labels = map[string]string{"a": "b"}
	own := map[string]string{"demo.example.com/requested-at": "now", "child.demo.example.com/a": "b", "cache.my.domain/a": "b"}
	stored.Annotations = map[string]string{"example.com.other.org/a": "b", "kubectl.kubernetes.io/x": "y", "my.domain/a": "b", "plain": "b"}
	maps.Copy(stored.Annotations, own)
	stored.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	informers, err := informersOf(newEnvironment(t, nil), demofake.NewClientset(stored), "AppStacks", func(factory informerFactory) cache.SharedIndexInformer {
		return factory.App().V1().AppStacks().Informer()
	})
	if err != nil {
		t.Fatal(err)
	}

	informer := informers[metav1.NamespaceAll]
	go informer.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the cache is not filled")
	}

	want := identity
	want.Annotations = own
	if diff := cmp.Diff(want, informer.GetStore().List()[0].(*appv1.AppStack).ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}
