// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/releaseworld"
	"github.com/example/demoapp-controller/test/synctestmain"
)

func TestMain(m *testing.M) { synctestmain.Run(m) }

var memcacheds = schema.GroupVersionResource{Group: "cache.my.domain", Version: "v1", Resource: "memcacheds"}

var memcached = memcacheds.GroupVersion().WithKind("Memcached")

// resync is longer than any test, so that no pass is periodic.
const resync = 1000 * time.Hour

// world is a manager and a real engine on a fake API server.
type world struct {
	*releaseworld.World

	t       *testing.T
	manager *watches.Manager
	waiting map[string]bool
	// stranded are the numbers that Deps.Unselected was called with, by kind.
	stranded map[string]int
	mu       sync.Mutex
	// permitted is Deps.Permitted of managers that start from now on.
	permitted func(context.Context, watches.ReleaseKind) error
}

// bubble runs a test with a manager of the kinds in a synctest bubble.
func bubble(t *testing.T, kinds []watches.ReleaseKind, test func(*world)) {
	t.Helper()
	releaseworld.Bubble(t, func(outer *releaseworld.World) {
		w := &world{World: outer, t: outer.T}
		w.Serve(memcacheds, "Memcached", true)
		w.start(kinds...)
		test(w)
	})
}

// start starts a manager and an engine.
func (w *world) start(kinds ...watches.ReleaseKind) {
	w.t.Helper()
	w.waiting, w.stranded = map[string]bool{}, map[string]int{}
	w.Start(func() (_ releaseworld.Run, err error) {
		w.manager, err = watches.NewManager(watches.Deps{
			Engine: w.Engine, RESTConfig: w.RESTConfig(), HTTPClient: w.HTTPClient(), Recorder: w.Recorder, Clock: clock.RealClock{}, ResyncPeriod: resync,
			Permitted: w.permitted,
			Waiting: func(kind string, waiting bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.waiting[kind] = waiting
			},
			Unselected: func(kind string, count int) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.stranded[kind] = count
			},
		}, kinds...)
		return w.manager.Run, err
	})
}

// unselected returns the number of custom resources of a kind that are not selected.
func (w *world) unselected(kind string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stranded[kind]
}

// create creates a Memcached with a spec, as a user does, and settles.
func (w *world) create(name string, spec map[string]any, annotations ...string) {
	w.t.Helper()
	w.change(name, func(object *unstructured.Unstructured) {
		object.Object["spec"] = spec
		annotate(object, annotations...)
	})
}

// change changes a Memcached as a user does, and settles.
func (w *world) change(name string, change func(*unstructured.Unstructured)) {
	w.t.Helper()
	w.Edit("Memcached", name, "kubectl", change)
	w.Settle()
}

// annotate sets annotations, given as names and values in turn.
func annotate(object *unstructured.Unstructured, annotations ...string) {
	all := object.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	for i := 0; i+1 < len(annotations); i += 2 {
		all[annotations[i]] = annotations[i+1]
	}
	object.SetAnnotations(all)
}

// conditions returns the conditions of a Memcached as "Type Status Reason", sorted.
func (w *world) conditions(name string) []string {
	w.t.Helper()
	var found []string
	for _, c := range w.typed(name) {
		found = append(found, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	slices.Sort(found)
	return found
}

func (w *world) typed(name string) []metav1.Condition {
	w.t.Helper()
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	written, _, err := unstructured.NestedMap(w.Object("Memcached", name).Object, "status")
	expect.NoError(w.t, err)
	expect.NoError(w.t, runtime.DefaultUnstructuredConverter.FromUnstructured(written, &status))
	return status.Conditions
}

// message returns the message of a condition.
func (w *world) message(name, conditionType string) string {
	w.t.Helper()
	if c := meta.FindStatusCondition(w.typed(name), conditionType); c != nil {
		return c.Message
	}
	return ""
}

// field returns a field of an object as text; empty without the field.
func (w *world) field(kind, name string, path ...string) string {
	w.t.Helper()
	object := w.Object(kind, name)
	if object == nil {
		return ""
	}
	value, ok, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if err != nil || !ok {
		return ""
	}
	return fmt.Sprint(value)
}

// description returns the description in a release record.
func (w *world) description(record string) string {
	w.t.Helper()
	encoded := w.field("Secret", "default/"+record, "data", "release")
	for range 2 { // Helm encodes the text of a Secret once more.
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		expect.NoError(w.t, err)
		encoded = string(decoded)
	}
	unzipped, err := gzip.NewReader(strings.NewReader(encoded))
	expect.NoError(w.t, err)
	var release struct {
		Info struct {
			Description string `json:"description"`
		} `json:"info"`
	}
	expect.NoError(w.t, json.NewDecoder(unzipped).Decode(&release))
	return release.Info.Description
}

// has reports an error unless the list has the entries.
func (w *world) has(what string, list []string, entries ...string) {
	w.t.Helper()
	for _, entry := range entries {
		if !slices.Contains(list, entry) {
			w.t.Errorf("%s lacks %q: %q", what, entry, list)
		}
	}
}

// chartOf returns a chart with templates by name.
func chartOf(t *testing.T, version string, templates ...string) *chart.Chart {
	t.Helper()
	return loadChart(t, "memcached", version, templates)
}

// namedChart is chartOf with a name in place of a version.
func namedChart(t *testing.T, name string, templates ...string) *chart.Chart {
	t.Helper()
	return loadChart(t, name, "1.0.0", templates)
}

func loadChart(t *testing.T, name, version string, templates []string) *chart.Chart {
	t.Helper()
	files := fstest.MapFS{"Chart.yaml": &fstest.MapFile{Data: []byte("apiVersion: v2\nname: " + name + "\nversion: " + version + "\n")}}
	for i := 0; i+1 < len(templates); i += 2 {
		files["templates/"+templates[i]] = &fstest.MapFile{Data: []byte(templates[i+1])}
	}
	chart, err := chart.LoadFS(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// configMap is a template of a ConfigMap with two values.
const configMap = `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  labels:
    app.kubernetes.io/managed-by: Helm
data:
  size: "{{ .Values.size }}"
  image: {{ .Values.image | default "none" | quote }}
`

// caches is the kind of most tests.
func caches(t *testing.T) watches.ReleaseKind {
	t.Helper()
	return watches.ReleaseKind{GroupVersionKind: memcached, Chart: chartOf(t, "1.0.0", "configmap.yaml", configMap)}
}
