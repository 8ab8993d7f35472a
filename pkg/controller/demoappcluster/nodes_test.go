// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
)

func TestUnknownNodes(t *testing.T) {
	w := newWorld(t, "a")
	w.cluster()
	w.nodes.synced = false
	w.pass()
	equal(t, "requests while the nodes are being listed", map[string]int{}, w.take())
	select {
	case <-w.controller.nodes.needed:
	default:
		t.Error("nobody asked for the nodes")
	}

	w.nodes.onError(t.Context(), cache.NewReflector(&cache.ListWatch{}, nil, cache.NewStore(cache.MetaNamespaceKeyFunc), 0), errors.New("nodes is forbidden"))
	w.pass()
	equal(t, "conditions", reconciling(v1alpha1.ReasonObserveFailed), w.conditions())
	contains(t, "message", w.messageOf(), "nodes is forbidden")
	equal(t, "observedGeneration", true, w.stored().Status.ObservedGeneration < 1)

	w.nodes.synced = true
	w.pass()
	equal(t, "conditions", reconciling(v1alpha1.ReasonRollingOut), w.conditions())
}

func TestNodesAreWatchedWhenTheyAreNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		must(t, metav1.AddMetaToScheme(scheme))
		client := metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{
				Name: "a", Annotations: map[string]string{"much": "to say"}, Labels: map[string]string{"disk": "ssd"},
			},
		})
		informer := metadatainformer.NewSharedInformerFactory(client, 0).
			ForResource(corev1.SchemeGroupVersion.WithResource("nodes")).Informer()
		known := make(chan struct{}, 1)
		n, err := newNodes(informer, func() { known <- struct{}{} })
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			n.run(ctx)
		}()
		synctest.Wait()
		equal(t, "requests before they are needed", 0, len(client.Actions()))
		n.need()
		n.need()
		<-known
		equal(t, "nodes", []string{"a"}, n.matching(labels.Everything()))
		equal(t, "nodes with another disk", []string(nil), n.matching(labels.SelectorFromSet(labels.Set{"disk": "hdd"})))
		for _, node := range informer.GetStore().List() {
			equal(t, "what is kept", &metav1.PartialObjectMetadata{
				ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"disk": "ssd"}},
			}, node.(*metav1.PartialObjectMetadata))
		}
		stop()
		<-ended
	})
}

func TestNodeChanged(t *testing.T) {
	node := func(change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		n := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"disk": "ssd"}}}
		change(n)
		return n
	}
	same := func(*metav1.PartialObjectMetadata) {}
	now := metav1.Now()
	tests := []struct {
		name          string
		before, after *metav1.PartialObjectMetadata
		want          controller.Reason
	}{
		{"it comes", nil, node(same), controller.DependencyReady},
		{"it goes", node(same), nil, controller.DependencyReady},
		{"a heartbeat", node(same), node(func(n *metav1.PartialObjectMetadata) { n.ResourceVersion = "2" }), 0},
		{"another label", node(same), node(func(n *metav1.PartialObjectMetadata) { n.Labels["disk"] = "hdd" }), controller.DependencyReady},
		{"it is being deleted", node(same), node(func(n *metav1.PartialObjectMetadata) { n.DeletionTimestamp = &now }), controller.DependencyReady},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "reason", test.want, nodeChanged(test.before, test.after))
		})
	}
}
