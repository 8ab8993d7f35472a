// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metacache

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"
)

// TestInformerCachesWhatKeepReturns lists a Secret with annotations. The cache has its identity.
func TestInformerCachesWhatKeepReturns(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	whole := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "login", UID: "1", ResourceVersion: "2",
			Annotations: map[string]string{"large": "annotation"}, Labels: map[string]string{"a": "label"},
		},
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, whole)
	informer, err := NewInformer(nil, client, corev1.SchemeGroupVersion.WithResource("secrets"), "ns", nil, Identity)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	defer running.Wait()
	defer stop()

	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer has not synced")
	}

	want := []any{&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "login", UID: "1", ResourceVersion: "2"}}}
	if diff := cmp.Diff(want, informer.GetStore().List()); diff != "" {
		t.Errorf("cached objects (-want +got):\n%s", diff)
	}
}
