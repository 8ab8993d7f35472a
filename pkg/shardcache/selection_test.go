// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package shardcache

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/sharding"
)

// TestSelectorMatchesShards: the API server selects the namespaces of the shards, as Of assigns them.
func TestSelectorMatchesShards(t *testing.T) {
	for _, count := range []int{2, 3, 6, 7, 12, 64} {
		for _, shards := range []shardSet{{0: 1}, {count - 1: 1}, {0: 1, 1: 2}, {0: 1, count - 1: 2}, {}} {
			selection := NewSelection(count)
			selector, err := sharding.Parse(selection.selectorOf(shards))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 500 {
				namespace := fmt.Sprintf("team-%d", i)
				matches, err := selector.Matches(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}})
				if want := shards.has(Of(namespace, count)); err != nil || matches != want {
					t.Errorf("%d shards: %s selects %s: %t (%v), want %t", count, selector, namespace, matches, err, want)
				}
			}
		}
	}
}

// TestSelectorJoinsRanges: adjacent shards are one range.
func TestSelectorJoinsRanges(t *testing.T) {
	tests := map[string]struct {
		shards shardSet
		want   string
	}{
		"none":     {shardSet{}, "shardRange(object.metadata.namespace, '0x0000000000000000', '0x0000000000000001')"},
		"all":      {shardSet{0: 1, 1: 2, 2: 3, 3: 4}, "shardRange(object.metadata.namespace, '0x0000000000000000', '0x10000000000000000')"},
		"adjacent": {shardSet{1: 1, 2: 2}, "shardRange(object.metadata.namespace, '0x4000000000000000', '0xc000000000000000')"},
		"apart": {shardSet{0: 1, 3: 2}, "shardRange(object.metadata.namespace, '0x0000000000000000', '0x4000000000000000') || " +
			"shardRange(object.metadata.namespace, '0xc000000000000000', '0x10000000000000000')"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := NewSelection(4).selectorOf(test.shards); got != test.want {
				t.Errorf("selector %s, want %s", got, test.want)
			}
		})
	}
}
