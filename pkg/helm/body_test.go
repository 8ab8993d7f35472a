// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestBodyCache(t *testing.T) {
	secret := func(uid types.UID, version string, size int) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r" + string(uid), UID: uid, ResourceVersion: version, Labels: map[string]string{"name": "web"}},
			Data:       map[string][]byte{"release": make([]byte, size)},
		}
	}
	known := func(uid types.UID, version string) *metav1.PartialObjectMetadata {
		return slimSecret(&secret(uid, version, 0).ObjectMeta)
	}
	tests := map[string]struct {
		run  func(*bodyCache)
		want map[types.UID]bool
		size int
	}{
		"holds what fits": {
			func(c *bodyCache) { c.put(secret("a", "1", 40)); c.put(secret("b", "1", 60)) },
			map[types.UID]bool{"a": true, "b": true},
			100,
		},
		"drops the oldest": {
			func(c *bodyCache) {
				c.put(secret("a", "1", 40))
				c.put(secret("b", "1", 40))
				c.put(secret("c", "1", 40))
			},
			map[types.UID]bool{"b": true, "c": true},
			80,
		},
		"a look keeps it": {
			func(c *bodyCache) {
				c.put(secret("a", "1", 40))
				c.put(secret("b", "1", 40))
				c.get(known("a", "1"))
				c.put(secret("c", "1", 40))
			},
			map[types.UID]bool{"a": true, "c": true},
			80,
		},
		"a new version takes the place of the old": {
			func(c *bodyCache) {
				c.put(secret("a", "0", 90))
				c.put(secret("a", "1", 50))
				c.put(secret("b", "1", 50))
			},
			map[types.UID]bool{"a": true, "b": true},
			100,
		},
		"another version is of no use": {
			func(c *bodyCache) { c.put(secret("a", "0", 50)) },
			map[types.UID]bool{},
			50,
		},
		"larger than all": {
			func(c *bodyCache) { c.put(secret("a", "1", 50)); c.put(secret("b", "1", 101)) },
			map[types.UID]bool{},
			0,
		},
		"removed": {
			func(c *bodyCache) {
				c.put(secret("a", "1", 50))
				c.put(secret("b", "1", 20))
				c.remove(known("a", "7"))
				c.remove(known("c", "1"))
			},
			map[types.UID]bool{"b": true},
			20,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cache := newBodyCache(100)
			tc.run(cache)
			got := map[types.UID]bool{}
			for _, uid := range []types.UID{"a", "b", "c"} {
				if cache.get(known(uid, "1")) != nil {
					got[uid] = true
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
			if cache.size != tc.size || cache.recent.Len() != len(cache.entries) {
				t.Errorf("size = %d, want %d; %d in the list, %d in the map", cache.size, tc.size, cache.recent.Len(), len(cache.entries))
			}
		})
	}
	t.Run("gives back the Secret", func(t *testing.T) {
		cache, put := newBodyCache(100), secret("a", "1", 10)
		cache.put(put)
		if diff := cmp.Diff(put, cache.get(known("a", "1"))); diff != "" {
			t.Errorf("Secret (-put +got):\n%s", diff)
		}
	})
}
