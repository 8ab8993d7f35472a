// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasekinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/operator"
)

const (
	// minChartRetry and maxChartRetry bound the delay before charts are pulled again.
	minChartRetry = 10 * time.Second
	maxChartRetry = 5 * time.Minute
	// maxPulls is the number of charts that are loaded at a time.
	maxPulls = 4
)

// FileKind is the name of the operator.Kind that runs all kinds of a file, for example in
// --controllers.
const FileKind = "watches"

// FileOptions configure the kinds of a file. Path is required.
type FileOptions struct {
	Options

	// Path is the path of the file, mostly watches.yaml. The file is read again when its
	// content changes.
	Path string
	// Charts is the source of the charts.
	Charts chart.Source
	// StatusManifest writes the manifests of releases to the statuses, see
	// [watches.ReleaseKind].
	StatusManifest bool
	// Reserved reports whether the program already has a controller for a kind. Optional.
	Reserved func(kind schema.GroupVersionKind) bool
}

// File registers the kinds of a file. It reads the file and loads all charts. The error
// joins all errors of the file. A program with the flag --controllers calls File only if
// operator.Options.Enabled(FileKind).
func File(ctx context.Context, engine *Engine, options FileOptions) (operator.Kind, error) {
	engine.cacheAll()
	loader := &loader{FileOptions: options, file: file.Watcher{Path: options.Path, Env: os.LookupEnv, Clock: clock.RealClock{}}}
	entries, err := loader.file.Load()
	kinds, loadErr := loader.kinds(ctx, entries)
	if err := file.Join(err, loadErr); err != nil {
		return operator.Kind{}, err
	}
	return operator.Kind{Name: FileKind, Rules: rulesOf(kinds), Build: func(env *operator.Environment) error {
		manager, err := newManager(env, FileKind, engine, options.Options, kinds)
		if err != nil {
			return err
		}
		loader.observe(env)
		env.AddService("watches file", func(ctx context.Context) error {
			loader.reportWaiting(ctx, entries)
			loader.follow(ctx, manager)
			return nil
		})
		env.AddSharded("watches", manager.Run)
		return nil
	}}, nil
}

// loader turns the entries of a file into kinds.
type loader struct {
	FileOptions

	file    file.Watcher
	valid   prometheus.Gauge
	waiting prometheus.Gauge
	report  func(event.Event)
	reloads *prometheus.CounterVec
}

// observe registers the metrics of the file, and prepares its events.
func (l *loader) observe(env *operator.Environment) {
	l.reloads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "watches_file_reloads_total",
		Help: "New versions of the watches file, by result (success or error).",
	}, []string{"result"})
	l.valid = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "watches_file_valid",
		Help: "Whether the newest version of the watches file is in use (1), or is invalid and an older one is (0).",
	})
	l.waiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "watches_file_waiting_entries",
		Help: "Entries of the watches file that wait, because overrideValues name environment variables that are not set.",
	})
	env.Registry.MustRegister(l.reloads, l.valid, l.waiting)
	l.valid.Set(1)
	recorder := env.Recorder(scheme.Scheme)
	l.report = func(e event.Event) {
		if lease := env.Lease(); lease != nil {
			event.Send(recorder, lease, e)
		}
	}
}

// reportWaiting reports the entries that wait. Their custom resources report it, too.
func (l *loader) reportWaiting(ctx context.Context, entries []file.Entry) {
	waiting := 0
	for _, entry := range entries {
		err := entry.Waits()
		if err == nil {
			continue
		}
		waiting++
		for _, line := range strings.Split(err.Error(), "\n") {
			klog.FromContext(ctx).Error(nil, "An entry of the watches file waits, the others are in use", "file", l.Path, "because", line)
			l.report(event.Warning("WatchesEntryWaits", "Reload", "The entry waits, the others are in use: "+line))
		}
	}
	l.waiting.Set(float64(waiting))
}

// follow applies new versions of the file until ctx ends. An invalid version is reported and does
// not change the kinds. A version whose charts cannot be pulled is retried.
func (l *loader) follow(ctx context.Context, manager *watches.Manager) {
	versions := make(chan version, 1)
	go l.file.Run(ctx, func(entries []file.Entry, err error) {
		select {
		case <-versions: // The version was not applied yet, and is outdated.
		default:
		}
		versions <- version{entries, err}
	})
	var newest version
	var again <-chan time.Time
	delay := minChartRetry
	for {
		select {
		case <-ctx.Done():
			return
		case newest = <-versions:
			delay = minChartRetry
		case <-again:
			delay = min(2*delay, maxChartRetry)
		}
		again = nil
		if err := l.apply(ctx, manager, newest); errors.Is(err, chart.ErrUnavailable) {
			again = l.file.Clock.After(delay)
		}
	}
}

// version is a version of the file, or the error of reading it.
type version struct {
	entries []file.Entry
	err     error
}

// apply applies a version of the file, and reports the result.
func (l *loader) apply(ctx context.Context, manager *watches.Manager, v version) error {
	var kinds []watches.ReleaseKind
	err := v.err
	if err == nil {
		kinds, err = l.kinds(ctx, v.entries)
	}
	if err == nil {
		err = manager.Update(kinds...)
	}
	if err != nil {
		lines := strings.Split(err.Error(), "\n")
		l.valid.Set(0)
		l.reloads.WithLabelValues("error").Inc()
		for _, line := range lines {
			klog.FromContext(ctx).Error(nil, "The watches file cannot be used, its last valid version stays in use", "file", l.Path, "because", line)
		}
		note := "The last valid version stays in use: " + lines[0]
		if more := len(lines) - 1; more > 0 {
			note += fmt.Sprintf(" (and %d more errors, see the log of the operator)", more)
		}
		l.report(event.Warning("WatchesFileInvalid", "Reload", note))
		return err
	}
	l.valid.Set(1)
	l.reloads.WithLabelValues("success").Inc()
	klog.FromContext(ctx).Info("The watches file was loaded again", "file", l.Path, "kinds", len(kinds))
	l.report(event.Normal("WatchesFileLoaded", "Reload", "A new version of the watches file is in use"))
	l.reportWaiting(ctx, v.entries)
	return nil
}

// kinds returns the kinds of the entries with their charts. The error joins the errors of
// all entries.
func (l *loader) kinds(ctx context.Context, entries []file.Entry) ([]watches.ReleaseKind, error) {
	var (
		kinds []watches.ReleaseKind
		errs  []error
	)
	charts := l.load(ctx, entries)
	for _, entry := range entries {
		loaded := charts[entry.Chart]
		if loaded.err != nil {
			errs = append(errs, entry.At("chart", loaded.err))
		}
		if _, _, err := entry.Override(nil); err != nil {
			errs = append(errs, entry.At("overrideValues", err))
		}
		if l.Reserved != nil && l.Reserved(entry.GroupVersionKind) {
			errs = append(errs, entry.At("kind", errors.New("the operator has a controller of its own for this kind: remove the entry")))
		}
		kinds = append(kinds, l.kind(entry, loaded.chart))
	}
	return kinds, file.Join(errs...)
}

// loaded is a chart, or the error of loading it.
type loaded struct {
	chart *chart.Chart
	err   error
}

// load loads each chart of the entries once, several at a time.
func (l *loader) load(ctx context.Context, entries []file.Entry) map[string]loaded {
	var (
		mu      sync.Mutex
		pulling errgroup.Group
	)
	pulling.SetLimit(maxPulls)
	charts, seen := map[string]loaded{}, map[string]bool{}
	for _, entry := range entries {
		if seen[entry.Chart] {
			continue
		}
		seen[entry.Chart] = true
		pulling.Go(func() error {
			chart, err := chart.Load(ctx, entry.Chart, l.Charts)
			mu.Lock()
			defer mu.Unlock()
			charts[entry.Chart] = loaded{chart, err}
			return nil
		})
	}
	_ = pulling.Wait() // Each chart has its own error.
	return charts
}

func (l *loader) kind(entry file.Entry, chart *chart.Chart) watches.ReleaseKind {
	k := watches.ReleaseKind{
		GroupVersionKind: entry.GroupVersionKind, Chart: chart, Overrides: entry.Overrides.Values(), OverrideTexts: entry.OverridesAs == file.OverridesText, Selector: entry.Selector,
		MaxConcurrentReconciles: entry.MaxConcurrentReconciles, IgnoreDependents: !entry.WatchDependentResources,
		ReleaseNamespace: entry.ReleaseNamespace, Scope: helm.Scope(entry.Scope), ServiceAccountName: entry.ServiceAccountName,
		Takeover: entry.Takeover, FieldValidation: entry.FieldValidation, Policy: entry.Policy, StatusManifest: l.StatusManifest,
		Rollout: rollout.Limits{Active: entry.Rollout.MaxConcurrent, Failed: entry.Rollout.MaxFailures},
	}
	if entry.Waits() != nil {
		k.Waits = "overrideValues of the operator's configuration name environment variables that are not set, see the log of the operator"
	}
	if entry.ReconcilePeriod != nil {
		k.ReconcilePeriod = cmp.Or(*entry.ReconcilePeriod, watches.Never)
	}
	if entry.ReleaseName != nil {
		k.ReleaseName = entry.ReleaseName.Execute
	}
	if entry.Values != nil {
		k.Translator = func(_ context.Context, object *unstructured.Unstructured) (map[string]any, error) {
			values, err := entry.Values.Execute(object)
			return values, controller.Terminal(err)
		}
	}
	if chart != nil {
		k.Revision = entry.Identity() + chart.Digest()
	}
	return k
}
