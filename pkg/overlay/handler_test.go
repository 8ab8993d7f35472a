// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestHandler(t *testing.T) {
	type object = metav1.PartialObjectMetadata
	at := func(version string) *object {
		o := &object{}
		o.Namespace, o.Name, o.UID, o.ResourceVersion = "default", "web", "a", version
		return o
	}
	added := func(o *object) func(Handler[*object]) {
		return func(h Handler[*object]) { h.OnAdd(o, false) }
	}
	updated := func(before, after *object) func(Handler[*object]) {
		return func(h Handler[*object]) { h.OnUpdate(before, after) }
	}
	deleted := func(o *object) func(Handler[*object]) {
		return func(h Handler[*object]) { h.OnDelete(cache.DeletedObject[*object]{OptionalObj: o}) }
	}
	tests := map[string]struct {
		written, deleted *object
		event            func(Handler[*object])
		want             []string
	}{
		"added":                           {event: added(at("5")), want: []string{"added 5"}},
		"own create":                      {written: at("5"), event: added(at("5"))},
		"created, and the watch skips it": {written: at("5"), event: added(at("7")), want: []string{"added 7, wrote 5"}},
		"updated":                         {event: updated(at("5"), at("7")), want: []string{"updated 5 to 7"}},
		"own update":                      {written: at("7"), event: updated(at("5"), at("7"))},
		"updated, and the watch skips it": {written: at("7"), event: updated(at("5"), at("9")), want: []string{"updated 7 to 9"}},
		"updated after the own update":    {written: at("7"), event: updated(at("7"), at("9")), want: []string{"updated 7 to 9"}},
		"listed again":                    {event: updated(at("5"), at("5"))},
		"deleted":                         {event: deleted(at("5")), want: []string{"deleted 5"}},
		"own delete":                      {deleted: at("5"), event: deleted(at("6")), want: []string{"deleted 6 by us"}},
		"deleted unseen":                  {event: deleted(nil)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			indexer.Bookmark("1")
			var got []string
			handler := Handler[*object]{
				View: New[*object](indexer),
				Added: func(o, written *object) {
					event := "added " + o.ResourceVersion
					if written != nil {
						event += ", wrote " + written.ResourceVersion
					}
					got = append(got, event)
				},
				Updated: func(before, after *object) {
					got = append(got, "updated "+before.ResourceVersion+" to "+after.ResourceVersion)
				},
				Deleted: func(o *object, own bool) {
					event := "deleted " + o.ResourceVersion
					if own {
						event += " by us"
					}
					got = append(got, event)
				},
			}
			if test.written != nil {
				handler.View.Wrote(test.written)
			}
			if test.deleted != nil {
				handler.View.Deleted(test.deleted)
			}

			test.event(handler)
			test.event(Handler[*object]{View: handler.View}) // It calls nothing.

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}
