// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// namedValues is a kind whose chart names its values.
func namedValues(t *testing.T, version string) watches.ReleaseKind {
	t.Helper()
	chart, err := chart.LoadFS(fstest.MapFS{
		"Chart.yaml":               {Data: []byte("apiVersion: v2\nname: memcached\nversion: " + version + "\n")},
		"values.yaml":              {Data: []byte("size: 1\nimage: none\nusers: {}\n")},
		"templates/configmap.yaml": {Data: []byte(configMap)},
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	return watches.ReleaseKind{GroupVersionKind: memcached, Chart: chart}
}

// changes returns the revisions of the history with their changes, the newest first.
func (w *world) changes(name string) []string {
	w.t.Helper()
	encoded, err := json.Marshal(w.Object("Memcached", name).Object["status"])
	expect.NoError(w.t, err)
	var status releasev1alpha1.ReleaseStatus
	expect.NoError(w.t, json.Unmarshal(encoded, &status))
	var found []string
	for _, entry := range status.History {
		found = append(found, strings.Join(append([]string{string(entry.Action), string(entry.Outcome)}, entry.Changed...), " "))
	}
	return found
}

func TestHistoryNamesWhatChanged(t *testing.T) {
	spec := func(size int64, password string) func(*unstructured.Unstructured) {
		return func(object *unstructured.Unstructured) {
			object.Object["spec"] = map[string]any{"size": size, "users": map[string]any{"alice": password}}
		}
	}
	bubble(t, []watches.ReleaseKind{namedValues(t, "1.0.0")}, func(w *world) {
		w.change("default/a", spec(1, "hunter2"))
		w.change("default/a", spec(1, "hunter3"))

		w.Stop()
		w.start(namedValues(t, "1.1.0"))
		w.Settle()

		w.With(func() {
			w.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if request.Key.Resource.Resource == "configmaps" && request.Verb == "apply" {
					return apierrors.NewForbidden(request.Key.Resource.GroupResource(), request.Key.Name, errors.New("not now"))
				}
				return nil
			}
		})
		w.change("default/a", spec(5, "hunter3"))

		got := slices.Compact(w.changes("default/a")) // The failed upgrade is retried.
		expect.Equal(w.t, "changes", []string{"Upgrade Failed values.size", "Upgrade Succeeded chart", "Upgrade Succeeded values.users", "Install Succeeded"}, got)
	})
}
