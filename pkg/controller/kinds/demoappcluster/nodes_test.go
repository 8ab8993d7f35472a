// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/test/expect"
)

func TestNodesCannotBeListed(t *testing.T) {
	w := newWorld(t, "a")
	w.cluster()

	w.nodes.err = &controller.UnfilledError{}
	w.pass()
	expect.Equal(t, "requests during the first list", map[string]int{}, w.take())

	w.nodes.err = &controller.UnfilledError{Failure: errors.New("nodes is forbidden")}
	w.pass()
	expect.Equal(t, "conditions", reconciling(apimeta.ReasonObserveFailed), w.conditions())
	expect.Equal(t, "message", "The nodes cannot be listed: nodes is forbidden", w.messageOf())
	expect.Equal(t, "observedGeneration", true, w.stored().Status.ObservedGeneration < 1)

	w.nodes.err = nil
	w.pass()
	expect.Equal(t, "conditions", reconciling(v1alpha1.ReasonRollingOut), w.conditions())
}

func TestFirstClusterStartsNodeWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scheme := runtime.NewScheme()
		expect.NoError(t, metav1.AddMetaToScheme(scheme))
		client := metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "a"},
		})
		nodes, err := controller.NewOnDemand(metadatainformer.NewSharedInformerFactory(client, 0).
			ForResource(corev1.SchemeGroupVersion.WithResource("nodes")).Informer(), cache.DefaultWatchErrorHandler)
		expect.NoError(t, err)
		w.startWith(nodes)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { nodes.Run(ctx) })
		synctest.Wait()
		expect.Equal(t, "requests without a DemoAppCluster", 0, len(client.Actions()))

		w.cluster()
		w.pass()
		time.Sleep(time.Second) // The informer polls until it has synced.
		synctest.Wait()
		w.pass()

		expect.Equal(t, "apps", []string{"web-a"}, w.names())
		stop()
		running.Wait()
	})
}

func TestMatchingNodes(t *testing.T) {
	now := metav1.Now()
	nodes := cache.NewStore(cache.MetaNamespaceKeyFunc)
	for _, node := range []metav1.ObjectMeta{
		{Name: "b", Labels: map[string]string{"disk": "ssd"}},
		{Name: "a", Labels: map[string]string{"disk": "ssd"}},
		{Name: "c", Labels: map[string]string{"disk": "hdd"}},
		{Name: "d", Labels: map[string]string{"disk": "ssd"}, DeletionTimestamp: &now},
	} {
		expect.NoError(t, nodes.Add(&metav1.PartialObjectMetadata{ObjectMeta: node}))
	}

	expect.Equal(t, "all nodes", []string{"a", "b", "c"}, matchingNodes(nodes, labels.Everything()))
	expect.Equal(t, "nodes with the disk ssd", []string{"a", "b"}, matchingNodes(nodes, labels.SelectorFromSet(labels.Set{"disk": "ssd"})))
	expect.Equal(t, "nodes with the disk nvme", []string(nil), matchingNodes(nodes, labels.SelectorFromSet(labels.Set{"disk": "nvme"})))
}

func TestKeepNode(t *testing.T) {
	kept := KeepNode(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "a", UID: "uid", ResourceVersion: "7", Annotations: map[string]string{"much": "to say"}, Labels: map[string]string{"disk": "ssd"},
	}})

	want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "a", UID: "uid", ResourceVersion: "7", Labels: map[string]string{"disk": "ssd"},
	}}
	expect.Equal(t, "object", want, kept)
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
		{"created", nil, node(same), controller.DependencyReady},
		{"deleted", node(same), nil, controller.DependencyReady},
		{"a heartbeat", node(same), node(func(n *metav1.PartialObjectMetadata) { n.ResourceVersion = "2" }), 0},
		{"another label", node(same), node(func(n *metav1.PartialObjectMetadata) { n.Labels["disk"] = "hdd" }), controller.DependencyReady},
		{"being deleted", node(same), node(func(n *metav1.PartialObjectMetadata) { n.DeletionTimestamp = &now }), controller.DependencyReady},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "reason", test.want, nodeChanged(test.before, test.after))
		})
	}
}
