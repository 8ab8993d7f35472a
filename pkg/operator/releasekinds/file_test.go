// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasekinds

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/test/fakeapi"
	"github.com/example/demoapp-controller/test/synctestmain"
)

func TestMain(m *testing.M) { synctestmain.Run(m) }

// writeFile writes a file below a folder, and creates the folders of its path.
func writeFile(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeChart writes a chart of a ConfigMap and returns its folder.
func writeChart(t *testing.T, folder, version string) string {
	t.Helper()
	writeFile(t, folder, version+"/templates/a.yaml",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {version: \"{{ .Chart.Version }}\", size: \"{{ .Values.size }}\"}\n")
	return filepath.Dir(writeFile(t, folder, version+"/Chart.yaml", "apiVersion: v2\nname: memcached\nversion: "+version+"\n"))
}

// TestFileErrors: the error has all errors of the file, of charts and of overrides, in the
// order of their lines.
func TestFileErrors(t *testing.T) {
	folder := t.TempDir()
	chart := writeChart(t, folder, "1.0.0")
	broken := filepath.Dir(writeFile(t, folder, "broken/Chart.yaml", "apiVersion: v2\nname: broken\n"))
	path := writeFile(t, folder, "watches.yaml", strings.NewReplacer("CHART", chart, "BROKEN", broken, "FOLDER", folder).Replace(`
- {version: v1, kind: A, chart: FOLDER/missing}
- {version: v1, kind: B, chart: BROKEN}
- {version: v1, kind: C, chart: CHART, reconcilePeriod: often}
- version: v1
  kind: D
  chart: CHART
  overrideValues:
    "a[": s3cret
- {version: v1, kind: E, chart: "oci://registry.example.com/memcached"}
- {version: v1, kind: F, chart: "oci://registry.example.com/memcached:1.0.0"}
- {version: v1, kind: G, chart: CHART}
`))

	_, err := File(t.Context(), &Engine{}, FileOptions{Path: path})

	if err == nil {
		t.Fatal("the file is valid")
	}
	lines := strings.Split(strings.ReplaceAll(err.Error(), folder, "FOLDER"), "\n")
	want := []string{
		`watches.yaml:2: entry 1 (v1 A): chart: chart "FOLDER/missing":`,
		`watches.yaml:3: entry 2 (v1 B): chart: chart "FOLDER/broken":`,
		`watches.yaml:4: entry 3 (v1 C): reconcilePeriod: "often" is not a duration`,
		`watches.yaml:8: entry 4 (v1 D): overrideValues:`,
		`watches.yaml:10: entry 5 (v1 E): chart: chart "oci://registry.example.com/memcached": not pinned`,
		`watches.yaml:11: entry 6 (v1 F): chart: chart "oci://registry.example.com/memcached:1.0.0": a remote chart needs a cache folder`,
	}
	if len(lines) != len(want) {
		t.Fatalf("the error has %d lines, want %d:\n%v", len(lines), len(want), strings.Join(lines, "\n"))
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) || strings.Contains(line, "s3cret") {
			t.Errorf("line %d is %q, want %q", i, line, want[i])
		}
	}
}

// TestMissingFile is an error.
func TestMissingFile(t *testing.T) {
	_, err := File(t.Context(), &Engine{}, FileOptions{Path: filepath.Join(t.TempDir(), "watches.yaml")})
	if err == nil || !strings.Contains(err.Error(), "watches.yaml: cannot be read") {
		t.Errorf("error is %v", err)
	}
}

var memcacheds = schema.GroupVersionResource{Group: "cache.my.domain", Version: "v1", Resource: "memcacheds"}

// process runs the services and controllers for the kinds of a file, on a fake API server.
type process struct {
	*fakeapi.Server

	t        *testing.T
	env      *operator.Environment
	registry *prometheus.Registry
}

// bubble runs a test with a process in a synctest bubble. build returns the parts of the
// process.
func bubble(t *testing.T, build func(*process) operator.Kind, test func(*process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &process{Server: fakeapi.New(t), t: t, registry: prometheus.NewRegistry()}
		p.Serve(memcacheds, "Memcached", true)
		client, err := dynamic.NewForConfigAndClient(p.RESTConfig(), p.HTTPClient())
		if err != nil {
			t.Fatal(err)
		}
		kube, err := kubernetes.NewForConfigAndClient(p.RESTConfig(), p.HTTPClient())
		if err != nil {
			t.Fatal(err)
		}
		identities, err := metadata.NewForConfigAndClient(p.RESTConfig(), p.HTTPClient())
		if err != nil {
			t.Fatal(err)
		}
		stream := events.NewBroadcaster(nil)
		defer stream.Shutdown()
		clients := &operator.Clients{Config: p.RESTConfig(), HTTP: p.HTTPClient(), Kube: kube, Dynamic: client, Metadata: identities}
		p.env = operator.NewEnvironment("test", clients, nil, stream, p.registry)
		parts, err := p.env.Build(build(p))
		if err != nil {
			t.Fatal(err)
		}
		lead := context.WithoutCancel(t.Context())
		stop, cancel := context.WithCancel(lead)
		var running sync.WaitGroup
		for _, service := range parts.Services {
			running.Go(func() { p.check(service.Name, service.Run(stop)) })
		}
		for _, c := range parts.Controllers {
			running.Go(func() { p.check(c.Name, c.Run(stop, lead)) })
		}
		p.wait(time.Minute)
		test(p)
		cancel()
		running.Wait()
	})
}

func (p *process) check(name string, err error) {
	if err != nil {
		p.t.Errorf("%s: %v", name, err)
	}
}

// wait advances the time, and waits until all goroutines are idle.
func (p *process) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// installed creates a Memcached, and compares the data of the ConfigMap of its release.
func (p *process) installed(name, want string) {
	p.t.Helper()
	p.Edit("Memcached", "default/"+name, "kubectl", func(object *unstructured.Unstructured) {
		object.Object["spec"] = map[string]any{"size": int64(3)}
	})
	p.wait(time.Minute)
	p.data(name, want)
}

// data compares the data of the ConfigMap of a release.
func (p *process) data(name, want string) {
	p.t.Helper()
	got := ""
	if object := p.Object("ConfigMap", "default/"+name); object != nil {
		got = fmt.Sprint(object.Object["data"])
	}
	if got != want {
		p.t.Errorf("data of %s is %q, want %q", name, got, want)
	}
}

// measured compares metrics.
func (p *process) measured(want ...string) {
	p.t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}).
		ServeHTTP(answer, httptest.NewRequestWithContext(p.t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range want {
		if !strings.Contains(answer.Body.String(), "\n"+line+"\n") {
			p.t.Errorf("/metrics lacks %s", line)
		}
	}
}

// entry is an entry of a file.
func entry(kind, chart string, further ...string) string {
	return "- {group: cache.my.domain, version: v1, kind: " + kind + ", chart: " + strings.Join(append([]string{chart}, further...), ", ") + "}\n"
}

// TestReload: a new version of the file takes effect. An invalid version does not, and sets the
// metrics.
func TestReload(t *testing.T) {
	folder := t.TempDir()
	first, second := writeChart(t, folder, "1.0.0"), writeChart(t, folder, "2.0.0")
	path := writeFile(t, folder, "watches.yaml", entry("Memcached", first))
	bubble(t, kindsOf(path), func(p *process) {
		p.installed("a", "map[size:3 version:1.0.0]")
		p.measured("watches_file_valid 1")

		writeFile(t, folder, "watches.yaml", entry("Memcached", second, `overrideValues: {size: "8"}`))
		p.wait(time.Minute)
		p.data("a", "map[size:8 version:2.0.0]")
		p.measured("watches_file_valid 1", `watches_file_reloads_total{result="success"} 1`)

		writeFile(t, folder, "watches.yaml", entry("Memcached", first, "reconcilePeriod: often"))
		p.wait(time.Minute)
		p.measured("watches_file_valid 0", `watches_file_reloads_total{result="error"} 1`)
		p.installed("b", "map[size:8 version:2.0.0]")

		writeFile(t, folder, "watches.yaml", entry("Memcached", filepath.Join(folder, "missing")))
		p.wait(time.Minute)
		p.measured("watches_file_valid 0", `watches_file_reloads_total{result="error"} 2`)

		writeFile(t, folder, "watches.yaml", "[]\n")
		p.wait(time.Minute)
		p.measured("watches_file_valid 1", `watches_file_reloads_total{result="success"} 2`)
		p.installed("c", "")
		p.data("a", "map[size:8 version:2.0.0]")
	})
}

// kindsOf builds the kinds of a file.
func kindsOf(path string) func(*process) operator.Kind {
	return func(p *process) operator.Kind {
		kind, err := File(p.t.Context(), &Engine{}, FileOptions{Path: path})
		if err != nil {
			p.t.Fatal(err)
		}
		return kind
	}
}

// TestObjectRelease: the object release of a custom resource has its policy, its sources and its
// dependencies.
func TestObjectRelease(t *testing.T) {
	folder := t.TempDir()
	path := writeFile(t, folder, "watches.yaml", entry("Memcached", writeChart(t, folder, "1.0.0")))
	bubble(t, kindsOf(path), func(p *process) {
		base := func(size string) {
			p.Edit("ConfigMap", "default/base", "kubectl", func(object *unstructured.Unstructured) {
				object.Object["data"] = map[string]any{"values.yaml": "size: " + size}
			})
			p.wait(time.Minute)
		}
		set := func(release map[string]any) {
			p.Edit("Memcached", "default/a", "kubectl", func(object *unstructured.Unstructured) {
				object.Object["spec"], object.Object["release"] = map[string]any{}, release
			})
			p.wait(time.Minute)
		}
		says := func(want string) {
			t.Helper()
			if conditions := fmt.Sprint(p.Object("Memcached", "default/a").Object["status"]); !strings.Contains(conditions, want) {
				t.Errorf("status is %s, want it to have %q", conditions, want)
			}
		}
		from := []any{map[string]any{"kind": "ConfigMap", "name": "base"}}
		waits := []any{map[string]any{"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "name": "b"}}

		set(map[string]any{"valuesFrom": from, "waitFor": waits})
		says(`ConfigMap "base", which is to hold key "values.yaml", does not exist`)
		says(`Waiting for Memcached "b", which does not exist`)
		base("5")
		p.data("a", "")
		p.installed("b", "map[size:3 version:1.0.0]")
		p.data("a", "map[size:5 version:1.0.0]")
		base("6")
		p.data("a", "map[size:6 version:1.0.0]")

		set(map[string]any{"valuesFrom": from, "suspend": true})
		base("7")
		p.data("a", "map[size:6 version:1.0.0]")
		says("release.suspend is true")
		set(map[string]any{"suspended": true})
		says("release.suspended: is not a known field; did you mean suspend?")
		p.data("a", "map[size:6 version:1.0.0]")
		set(map[string]any{"valuesFrom": from})
		p.data("a", "map[size:7 version:1.0.0]")
	})
}

// TestUnsetVariable: an entry waits while a variable of its overrides is not set, at the start as well
// as after a reload. The other entries are in use.
func TestUnsetVariable(t *testing.T) {
	folder := t.TempDir()
	first, second := writeChart(t, folder, "1.0.0"), writeChart(t, folder, "2.0.0")
	waiting := entry("Memcached", first, `overrideValues: {size: "${PROBE_REGG}/8"}`)
	path := writeFile(t, folder, "watches.yaml", waiting+entry("Other", second))
	bubble(t, kindsOf(path), func(p *process) {
		p.installed("a", "")
		p.measured("watches_file_valid 1", "watches_file_waiting_entries 1")
		conditions := fmt.Sprint(p.Object("Memcached", "default/a").Object["status"])
		if want := "overrideValues of the operator's configuration name environment variables that are not set"; !strings.Contains(conditions, want) {
			t.Errorf("status is %s, want it to have %q", conditions, want)
		}

		writeFile(t, folder, "watches.yaml", entry("Memcached", first, `overrideValues: {size: "8"}`))
		p.wait(time.Minute)
		p.data("a", "map[size:8 version:1.0.0]")
		p.measured("watches_file_waiting_entries 0")

		writeFile(t, folder, "watches.yaml", entry("Memcached", second, `overrideValues: {size: "${PROBE_REGG}/8"}`))
		p.wait(time.Minute)
		p.data("a", "map[size:8 version:1.0.0]")
		p.measured("watches_file_valid 1", "watches_file_waiting_entries 1", `watches_file_reloads_total{result="success"} 2`)
	})
}

// TestReloadEvents: each new version has an event, with the errors of the file.
func TestReloadEvents(t *testing.T) {
	folder := t.TempDir()
	chart := writeChart(t, folder, "1.0.0")
	path := writeFile(t, folder, "watches.yaml", entry("Memcached", chart))
	var reported []string
	l := &loader{FileOptions: FileOptions{Path: path}, file: file.Watcher{Path: path, Env: os.LookupEnv, Clock: clock.RealClock{}}}
	build := func(p *process) operator.Kind {
		entries, err := l.file.Load()
		if err != nil {
			p.t.Fatal(err)
		}
		kinds, err := l.kinds(p.t.Context(), entries)
		if err != nil {
			p.t.Fatal(err)
		}
		return operator.Kind{Name: "watches", Build: func(env *operator.Environment) error {
			var manager *watches.Manager
			manager, err := newManager(env, "releases", &Engine{}, Options{}, kinds)
			l.observe(env)
			l.report = func(e event.Event) { reported = append(reported, e.Type+" "+e.Reason+" "+e.Note) }
			env.AddController("watches", manager.Run)
			env.AddService("watches file", func(ctx context.Context) error {
				l.follow(ctx, manager)
				return nil
			})
			return err
		}}
	}
	bubble(t, build, func(p *process) {
		writeFile(t, folder, "watches.yaml", entry("Memcached", chart, "replicas: 3"))
		p.wait(time.Minute)
		writeFile(t, folder, "watches.yaml", entry("Memcached", chart, "timeout: often", "maxHistory: 0", "scope: All"))
		p.wait(time.Minute)
		writeFile(t, folder, "watches.yaml", entry("Memcached", chart, "maxHistory: 3"))
		p.wait(time.Minute)
		want := []string{
			"Warning WatchesFileInvalid The last valid version stays in use: watches.yaml:1: entry 1 (cache.my.domain/v1 Memcached): replicas: is not a known field;",
			"Warning WatchesFileInvalid The last valid version stays in use: watches.yaml:1: entry 1 (cache.my.domain/v1 Memcached): " +
				`timeout: "often" is not a duration; use for example 5m (and 2 more errors, see the log of the operator)`,
			"Normal WatchesFileLoaded A new version of the watches file is in use",
		}
		for i := range reported {
			reported[i], _, _ = strings.Cut(reported[i], " the fields here are ")
		}
		if diff := cmp.Diff(want, reported); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestReloadTwoVersionsOfOneKind: a refused file changes nothing.
func TestReloadTwoVersionsOfOneKind(t *testing.T) {
	folder := t.TempDir()
	chart := writeChart(t, folder, "1.0.0")
	path := writeFile(t, folder, "watches.yaml", entry("Memcached", chart))
	bubble(t, kindsOf(path), func(p *process) {
		writeFile(t, folder, "watches.yaml", entry("Memcached", chart)+"- {group: cache.my.domain, version: v2, kind: Memcached, chart: "+chart+"}\n")
		p.wait(time.Minute)
		p.measured("watches_file_valid 0", `watches_file_reloads_total{result="error"} 1`)
		p.installed("a", "map[size:3 version:1.0.0]")
	})
}
