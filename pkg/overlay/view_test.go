// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// The story of an object in a view: what the store holds, how far the store has
// come, and what this process did.
func TestViewGet(t *testing.T) {
	type version struct {
		uid     types.UID
		version string
	}
	object := func(v version) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{}
		o.Namespace, o.Name, o.UID, o.ResourceVersion = "default", "web", v.uid, v.version
		return o
	}
	tests := map[string]struct {
		stored  *version
		storeAt string
		written *version
		deleted *version
		want    *version
		forgets bool // The own write is of no more use.
	}{
		"nothing":                        {},
		"only the store":                 {stored: &version{"a", "5"}, want: &version{"a", "5"}},
		"written, store is behind":       {stored: &version{"a", "5"}, storeAt: "5", written: &version{"a", "7"}, want: &version{"a", "7"}},
		"written, store has it":          {stored: &version{"a", "7"}, written: &version{"a", "7"}, want: &version{"a", "7"}, forgets: true},
		"written, store has a newer one": {stored: &version{"a", "9"}, written: &version{"a", "7"}, want: &version{"a", "9"}, forgets: true},
		"versions are numbers":           {stored: &version{"a", "9"}, storeAt: "9", written: &version{"a", "10"}, want: &version{"a", "10"}},
		"created, store knows nothing":   {storeAt: "5", written: &version{"a", "7"}, want: &version{"a", "7"}},
		"created, and gone since":        {storeAt: "9", written: &version{"a", "7"}, forgets: true},
		"written, replaced since":        {stored: &version{"b", "9"}, written: &version{"a", "7"}, want: &version{"b", "9"}, forgets: true},
		"recreated, store has the old one": {
			stored: &version{"a", "5"}, storeAt: "5", written: &version{"b", "7"}, want: &version{"b", "7"},
		},
		"store is ahead with an old object": { // It was written, and the write undone in between: the store knows best.
			stored: &version{"a", "5"}, storeAt: "9", written: &version{"a", "7"}, want: &version{"a", "5"}, forgets: true,
		},
		"deleted, store has it still":        {stored: &version{"a", "5"}, storeAt: "5", deleted: &version{"a", "5"}},
		"deleted, store has a later version": {stored: &version{"a", "6"}, storeAt: "6", deleted: &version{"a", "5"}},
		"deleted, store knows":               {storeAt: "7", deleted: &version{"a", "5"}, forgets: true},
		"deleted, and made anew by others":   {stored: &version{"b", "8"}, storeAt: "8", deleted: &version{"a", "5"}, want: &version{"b", "8"}, forgets: true},
		"versions that are no numbers":       {stored: &version{"a", "x"}, storeAt: "x", written: &version{"a", "y"}, want: &version{"a", "x"}, forgets: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			if tc.stored != nil {
				if err := indexer.Add(object(*tc.stored)); err != nil {
					t.Fatal(err)
				}
			}
			storeAt := "1"
			if tc.storeAt != "" {
				storeAt = tc.storeAt
			}
			indexer.Bookmark(storeAt)
			v := New[*metav1.PartialObjectMetadata](indexer)
			if tc.written != nil {
				v.Wrote(object(*tc.written))
			}
			if tc.deleted != nil {
				v.Deleted(object(*tc.deleted))
			}
			var want *metav1.PartialObjectMetadata
			if tc.want != nil {
				want = object(*tc.want)
			}
			got, ok := v.Get("default", "web")
			if diff := cmp.Diff(want, got); diff != "" || ok != (want != nil) {
				t.Errorf("Get = %t (-want +got):\n%s", ok, diff)
			}
			if forgot := len(v.written) == 0; (tc.written != nil || tc.deleted != nil) && forgot != tc.forgets {
				t.Errorf("own write forgotten: %t, want %t", forgot, tc.forgets)
			}
		})
	}
}

// TestViewOwnEvents distinguishes the echo of an own write from changes by others.
func TestViewOwnEvents(t *testing.T) {
	object := func(uid types.UID, version string) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{}
		o.Namespace, o.Name, o.UID, o.ResourceVersion = "default", "web", uid, version
		return o
	}
	tests := map[string]struct {
		do        func(*View[*metav1.PartialObjectMetadata])
		event     *metav1.PartialObjectMetadata
		own       bool
		ownDelete bool
	}{
		"nothing done": {func(*View[*metav1.PartialObjectMetadata]) {}, object("a", "5"), false, false},
		"own write":    {func(v *View[*metav1.PartialObjectMetadata]) { v.Wrote(object("a", "5")) }, object("a", "5"), true, false},
		"an older write": {func(v *View[*metav1.PartialObjectMetadata]) {
			v.Wrote(object("a", "5"))
			v.Wrote(object("a", "7"))
		}, object("a", "5"), true, false},
		"a write by others": {func(v *View[*metav1.PartialObjectMetadata]) { v.Wrote(object("a", "5")) }, object("a", "6"), false, false},
		"own delete":        {func(v *View[*metav1.PartialObjectMetadata]) { v.Deleted(object("a", "5")) }, object("a", "8"), false, true},
		"delete of a later": {func(v *View[*metav1.PartialObjectMetadata]) { v.Deleted(object("a", "5")) }, object("b", "8"), false, false},
		"own delete of what was deleted": {func(v *View[*metav1.PartialObjectMetadata]) {
			v.Wrote(object("a", "5"))
			v.Deleted(object("a", "5"))
		}, object("a", "5"), true, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			indexer.Bookmark("1")
			v := New[*metav1.PartialObjectMetadata](indexer)
			tc.do(v)
			if got := v.IsOwn(tc.event); got != tc.own {
				t.Errorf("IsOwn = %t, want %t", got, tc.own)
			}
			if got := v.IsOwnDelete(tc.event); got != tc.ownDelete {
				t.Errorf("IsOwnDelete = %t, want %t", got, tc.ownDelete)
			}
		})
	}
}

func TestViewSettle(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	v := New[*metav1.PartialObjectMetadata](indexer)
	o := &metav1.PartialObjectMetadata{}
	o.Namespace, o.Name, o.ResourceVersion = "default", "web", "5"
	indexer.Bookmark("4")
	v.Wrote(o)
	v.Settle(o)
	if len(v.written) != 1 {
		t.Error("forgot a write that the store does not have")
	}
	if err := indexer.Add(o); err != nil {
		t.Fatal(err)
	}
	v.Settle(o)
	if len(v.written) != 0 {
		t.Error("remembers a write that the store has")
	}
}
