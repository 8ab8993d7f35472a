// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// TestRefusedWatch: while the operator may not watch the records, nothing waits for them, and each
// record fails with what to do. Records are written as soon as the operator may.
func TestRefusedWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var allowed atomic.Bool
		var reported atomic.Int32
		informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				if !allowed.Load() {
					return nil, apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("no rule allows it"))
				}
				return &metav1.PartialObjectMetadataList{}, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
		}, unstreamed{}), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
		trail, _, _ := newTrail(t, func(c *Config) {
			c.Informer, c.OnWatchError = informer, func(error) { reported.Add(1) }
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			informer.RunWithContext(ctx)
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		synced := trail.Synced()[0].HasSynced

		_, err := trail.Ensure(t.Context(), recordOf(spec{}, state{}))

		const remedy = "create the namespace records and grant get, list, watch, create, patch and delete of ConfigMaps there"
		if !synced() || !apierrors.IsForbidden(err) || !strings.HasSuffix(err.Error(), remedy) || strings.Contains(err.Error(), "\n") {
			t.Errorf("synced: %t, error: %v", synced(), err)
		}
		if reported.Load() == 0 {
			t.Error("the refused list is not reported")
		}
		allowed.Store(true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if written, err := trail.Ensure(t.Context(), recordOf(spec{}, state{})); err != nil || written == "" || !synced() {
			t.Errorf("wrote %q, error: %v, synced: %t", written, err, synced())
		}
		stop()
		<-ended
	})
}

// unstreamed is a client that does not stream the first list.
type unstreamed struct{}

// IsWatchListSemanticsUnSupported implements the interface that client-go looks for.
func (unstreamed) IsWatchListSemanticsUnSupported() bool { return true }

// TestNamespaceThatCannotBeCreated: the error says what to do.
func TestNamespaceThatCannotBeCreated(t *testing.T) {
	trail, kube, _ := newTrail(t)
	kube.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(corev1.Resource("namespaces"), auditNamespace)
	})
	kube.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("namespaces"), auditNamespace, errors.New("no rule allows it"))
	})

	_, err := trail.Ensure(t.Context(), recordOf(spec{}, state{}))

	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "create the namespace records and grant") {
		t.Errorf("error: %v", err)
	}
}
