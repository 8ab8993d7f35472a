// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/example/demoapp-controller/pkg/ssa"
	"github.com/example/demoapp-controller/test/memory"
)

// FuzzIgnoredPaths: for any path, chart object and live object, the search for ignored fields does
// not panic and takes bounded memory. It copies only the field at the path from the live object.
func FuzzIgnoredPaths(f *testing.F) {
	const object = `{"spec":{"replicas":1,"list":[{"name":"a","v":1},{"name":"b"}],"plain":[1,2]},"data":{"a/b":"x"}}`
	const live = `{"spec":{"replicas":3,"list":[{"name":"b"},{"name":"a","v":2}],"plain":[2]},"data":{}}`
	const fields = `{"f:spec":{"f:replicas":{},"f:list":{"k:{\"name\":\"a\"}":{"f:v":{}}},"f:plain":{"v:1":{},"i:0":{}}},"f:data":{"f:a/b":{}}}`
	for _, path := range []string{
		"/spec/replicas", "/spec/list/0/v", "/spec/list/0", "/spec/plain/1", "/data/a~1b", "/data", "/", "", "spec", "/spec/list/-1",
		"/spec/list/99999999999999999999", "/spec//", "/~2", "/spec/list/0/v/deeper", "/spec/replicas/x", strings.Repeat("/a", 200),
	} {
		f.Add(path, object, live, fields)
	}
	f.Add("/a", `{"a":null}`, `{"a":[]}`, `{".":{}}`)
	f.Fuzz(func(t *testing.T, path, object, live, fields string) {
		var desired, observed map[string]any
		if len(path)+len(object)+len(live)+len(fields) > 1<<20 ||
			json.Unmarshal([]byte(object), &desired) != nil || json.Unmarshal([]byte(live), &observed) != nil || desired == nil {
			return
		}
		set := fieldpath.NewSet()
		if set.FromJSON(strings.NewReader(fields)) != nil {
			set = fieldpath.NewSet()
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ignored := NewIgnored([]IgnoreRule{{Paths: []string{path}}}, &unstructured.Unstructured{Object: desired})
		kept := ignored.Without(set)
		set.Iterate(func(field fieldpath.Path) {
			if ignored.Cover(field) && kept.Has(field) {
				t.Errorf("%s is ignored and could be removed", field)
			}
			hasField(desired, field)
		})
		first := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 2)[0]
		first = strings.ReplaceAll(strings.ReplaceAll(first, "~1", "/"), "~0", "~")
		others := map[string]any{}
		for name, value := range desired {
			if name != first {
				others[name] = value
			}
		}
		adopt(desired, observed, pointerTokens(path))
		ssa.Differences(desired, observed)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > memory.Limit {
			t.Errorf("allocated %d MiB", took>>20)
		}
		delete(desired, first)
		if diff := cmp.Diff(others, desired); diff != "" {
			t.Errorf("%q changed other fields (-want +got):\n%s", path, diff)
		}
	})
}
