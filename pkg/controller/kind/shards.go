// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
)

// openShard enqueues all cached objects of a shard that the process has taken. Their events were
// dropped before.
func (l *Loop[T, S]) openShard(in controller.InShard) {
	for _, key := range l.keysIn(in) {
		l.queue.Enqueue(key, controller.SpecChange)
	}
}

// closeShard drops the state of the loop about the objects of a shard that the process has drained.
// The process may take the shard again after another one has worked on it. Objects whose deletion
// the caches already show are among the dropped keys, or reach forget by their own events.
func (l *Loop[T, S]) closeShard(in controller.InShard) {
	for _, key := range append(l.keysIn(in), l.queue.Drop(in)...) {
		l.forget(key)
	}
}

// keysIn returns the cached objects of a shard.
func (l *Loop[T, S]) keysIn(in controller.InShard) []cache.ObjectName {
	var keys []cache.ObjectName
	for _, cached := range l.cached {
		for _, text := range cached.ListKeys() {
			if key, err := cache.ParseObjectName(text); err == nil && in(key.Namespace) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}
