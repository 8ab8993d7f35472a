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

// TestViewGet combines the object in the store, the resource version of the store,
// and the last write or delete of this process.
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
		drops   bool // The view drops the write.
	}{
		"no object":                                 {},
		"object only in the store":                  {stored: &version{"a", "5"}, want: &version{"a", "5"}},
		"written, store is behind":                  {stored: &version{"a", "5"}, storeAt: "5", written: &version{"a", "7"}, want: &version{"a", "7"}},
		"written, store has the written version":    {stored: &version{"a", "7"}, written: &version{"a", "7"}, want: &version{"a", "7"}, drops: true},
		"written, store has a newer version":        {stored: &version{"a", "9"}, written: &version{"a", "7"}, want: &version{"a", "9"}, drops: true},
		"resource versions compare as numbers":      {stored: &version{"a", "9"}, storeAt: "9", written: &version{"a", "10"}, want: &version{"a", "10"}},
		"created, store is behind":                  {storeAt: "5", written: &version{"a", "7"}, want: &version{"a", "7"}},
		"created, then deleted by another client":   {storeAt: "9", written: &version{"a", "7"}, drops: true},
		"written, then recreated by another client": {stored: &version{"b", "9"}, written: &version{"a", "7"}, want: &version{"b", "9"}, drops: true},
		"recreated, store has the old object": {
			stored: &version{"a", "5"}, storeAt: "5", written: &version{"b", "7"}, want: &version{"b", "7"},
		},
		"store is ahead with an old object": { // The store has passed the write, so its object is authoritative.
			stored: &version{"a", "5"}, storeAt: "9", written: &version{"a", "7"}, want: &version{"a", "5"}, drops: true,
		},
		"deleted, store still has the object":       {stored: &version{"a", "5"}, storeAt: "5", deleted: &version{"a", "5"}},
		"deleted, store has a later version":        {stored: &version{"a", "6"}, storeAt: "6", deleted: &version{"a", "5"}},
		"deleted, store has no object":              {storeAt: "7", deleted: &version{"a", "5"}, drops: true},
		"deleted, then recreated by another client": {stored: &version{"b", "8"}, storeAt: "8", deleted: &version{"a", "5"}, want: &version{"b", "8"}, drops: true},
		"resource versions are not numbers":         {stored: &version{"a", "x"}, storeAt: "x", written: &version{"a", "y"}, want: &version{"a", "x"}, drops: true},
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
			if dropped := len(v.written) == 0; (tc.written != nil || tc.deleted != nil) && dropped != tc.drops {
				t.Errorf("own write dropped: %t, want %t", dropped, tc.drops)
			}
		})
	}
}

// TestViewOwnEvents distinguishes events of this process's writes from events of other clients.
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
		"no own write": {func(*View[*metav1.PartialObjectMetadata]) {}, object("a", "5"), false, false},
		"own write":    {func(v *View[*metav1.PartialObjectMetadata]) { v.Wrote(object("a", "5")) }, object("a", "5"), true, false},
		"older own write": {func(v *View[*metav1.PartialObjectMetadata]) {
			v.Wrote(object("a", "5"))
			v.Wrote(object("a", "7"))
		}, object("a", "5"), true, false},
		"write by another client":      {func(v *View[*metav1.PartialObjectMetadata]) { v.Wrote(object("a", "5")) }, object("a", "6"), false, false},
		"own delete":                   {func(v *View[*metav1.PartialObjectMetadata]) { v.Deleted(object("a", "5")) }, object("a", "8"), false, true},
		"delete of a recreated object": {func(v *View[*metav1.PartialObjectMetadata]) { v.Deleted(object("a", "5")) }, object("b", "8"), false, false},
		"own write, then own delete": {func(v *View[*metav1.PartialObjectMetadata]) {
			v.Wrote(object("a", "5"))
			v.Deleted(object("a", "5"))
		}, object("a", "5"), true, true},
		"own delete, then own create": {func(v *View[*metav1.PartialObjectMetadata]) {
			v.Deleted(object("a", "5"))
			v.Wrote(object("b", "7"))
			v.Wrote(object("b", "8"))
		}, object("a", "6"), false, true},
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

// TestViewLeaving: an object that this process deleted is leaving until the store drops it.
func TestViewLeaving(t *testing.T) {
	object := func(uid types.UID) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{}
		o.Namespace, o.Name, o.UID, o.ResourceVersion = "default", "web", uid, "5"
		return o
	}
	tests := map[string]struct {
		stored, deleted *metav1.PartialObjectMetadata
		leaving         bool
	}{
		"deleted and in the store":         {object("a"), object("a"), true},
		"deleted and gone":                 {nil, object("a"), false},
		"deleted and replaced":             {object("b"), object("a"), false},
		"in the store and not deleted":     {object("a"), nil, false},
		"neither in the store nor deleted": {nil, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			indexer.Bookmark("1")
			if test.stored != nil {
				if err := indexer.Add(test.stored); err != nil {
					t.Fatal(err)
				}
			}
			v := New[*metav1.PartialObjectMetadata](indexer)
			if test.deleted != nil {
				v.Deleted(test.deleted)
			}

			_, leaving := v.Leaving("default", "web")

			if leaving != test.leaving {
				t.Errorf("Leaving = %t, want %t", leaving, test.leaving)
			}
		})
	}
}

// TestViewDoubt: the answer to a write may arrive while the handler of its event runs. The version
// is then no reason to doubt, but later versions of other clients are.
func TestViewDoubt(t *testing.T) {
	at := func(resourceVersion string) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{}
		o.Namespace, o.Name, o.UID, o.ResourceVersion = "default", "web", "a", resourceVersion
		return o
	}
	tests := map[string]struct {
		do      func(*View[*metav1.PartialObjectMetadata])
		doubted bool
	}{
		"another client": {func(v *View[*metav1.PartialObjectMetadata]) { v.Doubt(at("6")) }, true},
		"a write whose answer arrives first": {func(v *View[*metav1.PartialObjectMetadata]) {
			v.Wrote(at("6"))
			v.Doubt(at("6"))
		}, false},
		"a write whose event arrives first": {func(v *View[*metav1.PartialObjectMetadata]) {
			v.Doubt(at("6"))
			v.Wrote(at("6"))
		}, false},
		"another client after a write": {func(v *View[*metav1.PartialObjectMetadata]) {
			v.Wrote(at("6"))
			v.Doubt(at("7"))
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := New[*metav1.PartialObjectMetadata](cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil))

			test.do(v)

			if got := v.IsDoubted(at("8")); got != test.doubted {
				t.Errorf("IsDoubted = %t, want %t", got, test.doubted)
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
		t.Error("Settle dropped a write that the store does not have")
	}
	if err := indexer.Add(o); err != nil {
		t.Fatal(err)
	}
	v.Settle(o)
	if len(v.written) != 0 {
		t.Error("Settle kept a write that the store has")
	}
}

// TestViewIsOwnUntilSettled: a reader sees the store before the informer's handler runs. The
// handler must still recognize the event of the write, and no later event.
func TestViewIsOwnUntilSettled(t *testing.T) {
	object := func(version string) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{}
		o.Namespace, o.Name, o.UID, o.ResourceVersion = "default", "web", "a", version
		return o
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	v := New[*metav1.PartialObjectMetadata](indexer)
	v.Wrote(object("7"))
	if err := indexer.Add(object("7")); err != nil {
		t.Fatal(err)
	}
	v.Get("default", "web")
	if !v.IsOwn(object("7")) {
		t.Error("the event of the own write counts as another client's after the store has caught up")
	}
	v.Settle(object("6"))
	if !v.IsOwn(object("7")) {
		t.Error("an older event settled the own write")
	}
	v.Settle(object("7"))
	if v.IsOwn(object("7")) || len(v.echoes) != 0 {
		t.Error("the own write is kept after its event")
	}
	v.Wrote(object("9"))
	if err := indexer.Delete(object("9")); err != nil {
		t.Fatal(err)
	}
	indexer.Bookmark("10")
	v.Settle(object("8"))
	if len(v.echoes) != 0 {
		t.Error("the own write is kept after the object is gone")
	}
}

// TestViewWroteOutOfOrder: the answer to an earlier write arrives after the answer to a later one.
func TestViewWroteOutOfOrder(t *testing.T) {
	object := func(version string) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{}
		o.Namespace, o.Name, o.UID, o.ResourceVersion = "default", "web", "a", version
		return o
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	if err := indexer.Add(object("10")); err != nil {
		t.Fatal(err)
	}
	v := New[*metav1.PartialObjectMetadata](indexer)

	v.Wrote(object("12"))
	v.Wrote(object("11"))

	if got, _ := v.Get("default", "web"); got.ResourceVersion != "12" {
		t.Errorf("got version %s, want 12", got.ResourceVersion)
	}
}

// TestViewOfStoreWithoutVersion: an older object in the store does not hide a write of this process
// if the version of the store is not known.
func TestViewOfStoreWithoutVersion(t *testing.T) {
	for stored, want := range map[string]string{"9": "10", "10": "10", "11": "11"} {
		t.Run(stored, func(t *testing.T) {
			o := &metav1.PartialObjectMetadata{}
			o.Namespace, o.Name, o.ResourceVersion = "default", "web", stored
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			if err := indexer.Replace([]any{o}, ""); err != nil {
				t.Fatal(err)
			}
			v := New[*metav1.PartialObjectMetadata](indexer)
			written := o.DeepCopy()
			written.ResourceVersion = "10"

			v.Wrote(written)

			if got, _ := v.Get("default", "web"); got.ResourceVersion != want {
				t.Errorf("got version %s, want %s", got.ResourceVersion, want)
			}
		})
	}
}

func TestViewsIn(t *testing.T) {
	all, some := &View[*metav1.PartialObjectMetadata]{}, &View[*metav1.PartialObjectMetadata]{}
	tests := map[string]struct {
		views Views[*metav1.PartialObjectMetadata]
		want  *View[*metav1.PartialObjectMetadata]
	}{
		"all namespaces": {Views[*metav1.PartialObjectMetadata]{"": all}, all},
		"this namespace": {Views[*metav1.PartialObjectMetadata]{"default": some}, some},
		"others":         {Views[*metav1.PartialObjectMetadata]{"other": some}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.views.In("default"); got != tc.want {
				t.Errorf("view = %p, want %p", got, tc.want)
			}
		})
	}
}

// TestNilView: a namespace that is not watched has no objects.
func TestNilView(t *testing.T) {
	var v *View[*metav1.PartialObjectMetadata]
	o := &metav1.PartialObjectMetadata{}
	o.Namespace, o.Name, o.ResourceVersion = "default", "web", "5"
	v.Wrote(o)
	v.Deleted(o)
	_, exists := v.Get("default", "web")
	_, leaving := v.Leaving("default", "web")
	if exists || leaving || v.List("index", "value", nil) != nil || v.IsDoubted(o) {
		t.Error("a nil view has an object")
	}
}
