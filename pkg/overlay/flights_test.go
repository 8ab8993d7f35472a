// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// TestFlights: notices that arrive during a flight are reported at its end, except for echoes of
// its writes.
func TestFlights(t *testing.T) {
	owner := cache.ObjectName{Namespace: "default", Name: "web"}
	object := func(uid types.UID, version string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{UID: uid, ResourceVersion: version}
	}
	changed := func(uid types.UID, version string) Notice[string] {
		return NoticeOf[string, metav1.Object](nil, owner, "changed", object(uid, version), false)
	}
	gone := func(uid types.UID, version string) Notice[string] {
		return NoticeOf[string, metav1.Object](nil, owner, "changed", object(uid, version), true)
	}
	compared := cmp.Options{cmp.AllowUnexported(Notice[string]{}, version{}), cmpopts.IgnoreFields(Notice[string]{}, "isOwn")}
	tests := map[string]struct {
		write, remove *metav1.ObjectMeta
		notice        Notice[string]
		told          bool
	}{
		"of an object not touched":         {notice: changed("a", "5"), told: true},
		"own write":                        {write: object("a", "5"), notice: changed("a", "5")},
		"before an own write":              {write: object("a", "5"), notice: changed("a", "4")},
		"after an own write":               {write: object("a", "5"), notice: changed("a", "6"), told: true},
		"of another object":                {write: object("a", "5"), notice: changed("b", "5"), told: true},
		"written, and deleted by others":   {write: object("a", "5"), notice: gone("a", "4"), told: true},
		"own deletion":                     {remove: object("a", "5"), notice: gone("a", "6")},
		"last change before own deletion":  {remove: object("a", "5"), notice: changed("a", "6")},
		"what came after the one deleted":  {remove: object("a", "5"), notice: changed("b", "7"), told: true},
		"deleted and written: the new one": {remove: object("a", "5"), write: object("b", "7"), notice: changed("b", "7")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var flights Flights[string]
			if flights.Hold(tc.notice) {
				t.Error("a notice is held without a flight")
			}
			flights.Begin(owner)
			if tc.write != nil {
				flights.Wrote(owner, tc.write)
			}
			if !flights.Hold(tc.notice) {
				t.Error("a notice is reported during a flight")
			}
			elsewhere := tc.notice
			elsewhere.Owner.Name = "other"
			if flights.Hold(elsewhere) {
				t.Error("a notice of another owner is held")
			}
			if tc.remove != nil { // The answer comes after the event.
				flights.Deleted(owner, tc.remove)
			}
			var want []Notice[string]
			if tc.told {
				want = []Notice[string]{tc.notice}
			}
			if diff := cmp.Diff(want, flights.End(owner), compared, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("reported (-want +got):\n%s", diff)
			}
			if flights.Hold(tc.notice) {
				t.Error("a notice is held after the flight")
			}
		})
	}
	t.Run("many changes of one object", func(t *testing.T) {
		var flights Flights[string]
		flights.Begin(owner)
		for version := range 1000 {
			flights.Hold(changed("a", strconv.Itoa(version)))
		}
		if diff := cmp.Diff([]Notice[string]{changed("a", "999")}, flights.End(owner), compared); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
	})
	t.Run("the flight of an own write ends while its event is handled", func(t *testing.T) {
		var flights Flights[string]
		view := New[*metav1.PartialObjectMetadata](cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil))
		written := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "a", ResourceVersion: "5"}}
		flights.Begin(owner)
		view.Wrote(written)
		flights.Wrote(owner, written)
		flights.End(owner)
		later := written.DeepCopy()
		later.ResourceVersion = "6"
		if !flights.Hold(NoticeOf(view, owner, "changed", written, false)) {
			t.Error("an echo is reported")
		}
		if flights.Hold(NoticeOf(view, owner, "changed", later, false)) || flights.Hold(NoticeOf(view, owner, "changed", written, true)) {
			t.Error("a change by another client is dropped")
		}
	})
	t.Run("writes outside of flights", func(*testing.T) {
		var flights Flights[string]
		flights.Wrote(owner, object("a", "5"))
		flights.Deleted(owner, object("a", "5"))
	})
}
