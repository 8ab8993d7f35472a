// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// TestFlights: changes that arrive during an operation are published at its end, except for echoes
// of its writes.
func TestFlights(t *testing.T) {
	release := cache.ObjectName{Namespace: "default", Name: "web"}
	object := func(uid types.UID, version string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{UID: uid, ResourceVersion: version}
	}
	changed := func(uid types.UID, version string) notice {
		return noticeOf(release, ObjectChanged, object(uid, version), false)
	}
	gone := func(uid types.UID, version string) notice {
		return noticeOf(release, ObjectChanged, object(uid, version), true)
	}
	tests := map[string]struct {
		write, remove *metav1.ObjectMeta
		notice        notice
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
			var operations flights
			if operations.hold(tc.notice) {
				t.Error("a notice is held without an operation")
			}
			operations.begin(release)
			if tc.write != nil {
				operations.noteWrite(release, tc.write)
			}
			if !operations.hold(tc.notice) {
				t.Error("a notice is published during an operation")
			}
			elsewhere := tc.notice
			elsewhere.release.Name = "other"
			if operations.hold(elsewhere) {
				t.Error("a notice of another release is held")
			}
			if tc.remove != nil { // The answer comes after the event.
				operations.noteDelete(release, tc.remove)
			}
			var want []notice
			if tc.told {
				want = []notice{tc.notice}
			}
			if diff := cmp.Diff(want, operations.end(release), cmp.AllowUnexported(notice{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("published (-want +got):\n%s", diff)
			}
			if operations.hold(tc.notice) {
				t.Error("a notice is held after the operation")
			}
		})
	}
	t.Run("many changes of one object", func(t *testing.T) {
		var operations flights
		operations.begin(release)
		for version := range 1000 {
			operations.hold(changed("a", strconv.Itoa(version)))
		}
		if diff := cmp.Diff([]notice{changed("a", "999")}, operations.end(release), cmp.AllowUnexported(notice{})); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
	})
	t.Run("writes outside of operations", func(*testing.T) {
		var operations flights
		operations.noteWrite(release, object("a", "5"))
		operations.noteDelete(release, object("a", "5"))
	})
}
