// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestBodyCache(t *testing.T) {
	known := func(uid types.UID, version string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version}}
	}
	// Sizes are in hundreds of bytes.
	put := func(c *Cache, uid types.UID, version string, size int) *Content {
		content := &Content{rest: make([]byte, 100*size-bodyOverhead)}
		c.Put(known(uid, version), content)
		return content
	}
	tests := map[string]struct {
		run  func(*Cache)
		want map[types.UID]bool
		size int
	}{
		"holds what fits": {
			func(c *Cache) { put(c, "a", "1", 40); put(c, "b", "1", 60) },
			map[types.UID]bool{"a": true, "b": true},
			100,
		},
		"drops the oldest": {
			func(c *Cache) {
				put(c, "a", "1", 40)
				put(c, "b", "1", 40)
				put(c, "c", "1", 40)
			},
			map[types.UID]bool{"b": true, "c": true},
			80,
		},
		"a look keeps it": {
			func(c *Cache) {
				put(c, "a", "1", 40)
				put(c, "b", "1", 40)
				c.Get(known("a", "1"))
				put(c, "c", "1", 40)
			},
			map[types.UID]bool{"a": true, "c": true},
			80,
		},
		"a new version takes the place of the old": {
			func(c *Cache) {
				put(c, "a", "0", 90)
				put(c, "a", "1", 50)
				put(c, "b", "1", 50)
			},
			map[types.UID]bool{"a": true, "b": true},
			100,
		},
		"another version is of no use": {
			func(c *Cache) { put(c, "a", "0", 50) },
			map[types.UID]bool{},
			50,
		},
		"larger than all": {
			func(c *Cache) { put(c, "a", "1", 50); put(c, "b", "1", 101) },
			map[types.UID]bool{},
			0,
		},
		"removed": {
			func(c *Cache) {
				put(c, "a", "1", 50)
				put(c, "b", "1", 20)
				c.Remove(known("a", "7"))
				c.Remove(known("c", "1"))
			},
			map[types.UID]bool{"b": true},
			20,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cache := NewCache(100 * 100)
			tc.run(cache)
			got := map[types.UID]bool{}
			for _, uid := range []types.UID{"a", "b", "c"} {
				if cache.Get(known(uid, "1")) != nil {
					got[uid] = true
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
			if cache.size != 100*tc.size || cache.recent.Len() != len(cache.entries) {
				t.Errorf("size = %d, want %d; %d in the list, %d in the map", cache.size, 100*tc.size, cache.recent.Len(), len(cache.entries))
			}
		})
	}
	t.Run("gives back the content", func(t *testing.T) {
		cache := NewCache(1000)
		want := put(cache, "a", "1", 10)
		if got := cache.Get(known("a", "1")); got != want {
			t.Errorf("content = %v, want %v", got, want)
		}
	})
}
