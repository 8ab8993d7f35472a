// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/overlay"
)

// Defaults of [Config].
const (
	DefaultMaxHistory = 10
	DefaultTimeout    = 5 * time.Minute

	// MaxTimeout bounds one operation, whatever the release's timeout is. Otherwise a
	// hook that never ends could block the release for a day.
	MaxTimeout = time.Hour

	// bodyCacheBytes bounds the memory for the content of release records. Without its
	// chart, the record of a small chart has about 2 KiB.
	bodyCacheBytes = 32 << 20
)

// Change is a kind of change to a release.
type Change int

const (
	// ObjectChanged means that an object of the release was changed, deleted or replaced.
	ObjectChanged Change = iota
	// HealthChanged means that the health of an object of the release changed.
	HealthChanged
	// RecordChanged means that another client changed the release's records.
	RecordChanged
)

// WatchedRecords names the release records in Config.OnWatchError.
const WatchedRecords = "release records"

// Config is the configuration of an engine.
type Config struct {
	// RESTConfig configures the connection to the API server. Required. Its QPS applies to each of
	// the engine's clients. client-go's default of 5 a second is too low for more than a few
	// releases; with -1, the API server provides fairness.
	RESTConfig *rest.Config
	// HTTPClient is shared with other clients of the same server; by default the
	// engine makes its own from RESTConfig.
	HTTPClient *http.Client
	// Namespaces are the namespaces of the releases and their objects; empty means all.
	// The engine neither reads nor writes objects in other namespaces.
	Namespaces []string
	// MaxHistory is the number of revisions to keep for a release that does not set its
	// own; by default DefaultMaxHistory.
	MaxHistory int
	// Timeout bounds one operation, hooks included, on a release that does not set its
	// own; by default DefaultTimeout, and at most MaxTimeout.
	Timeout time.Duration
	// Logger receives the engine's and Helm's messages; by default slog.Default().
	Logger *slog.Logger
	// LoggerFor returns the logger of an operation, for the context with which the caller began it;
	// by default Logger. The lines of the operation, including the lines of Helm and of hooks, then
	// have the fields of the caller's logger.
	LoggerFor func(ctx context.Context) *slog.Logger
	// Clock is the clock; by default the real one.
	Clock clock.PassiveClock
	// OnWatchError, when set, is called for each error of a list or watch, with what is watched:
	// WatchedRecords, or a resource such as "deployments.apps". Watches also end normally
	// with an error, see cache.DefaultWatchErrorHandler.
	OnWatchError func(watched string, err error)
	// OnOperation, when set, is called after every operation that sent a request.
	OnOperation func(Operation)
}

// Operation describes an operation that has ended.
type Operation struct {
	Release cache.ObjectName
	// Action is Install, Upgrade, Rollback, Reapply, Repair, Uninstall, Mark or
	// Explain.
	Action   string
	Duration time.Duration
	// Drifts are the drifts that a Repair corrected, or that an Explain found and did not correct.
	Drifts []Drift
	Err    error
}

// Operations returns all values of Operation.Action.
func Operations() []string {
	var names []string
	for _, action := range []Action{
		ActionInstall, ActionUpgrade, ActionRollback, ActionReapply, ActionRepair, actionUninstall, actionMark, actionExplain,
	} {
		names = append(names, string(action))
	}
	return names
}

// Engine installs, upgrades, repairs and uninstalls releases. See the package
// documentation.
type Engine struct {
	// remote is the configuration for clients that Helm makes. They share the transport
	// of the engine's own client.
	remote    *rest.Config
	clientset kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	mapper    *kindMapper
	records   *record.Index
	sources   *sources
	watcher   *watcher
	bodies    *record.Cache
	locks     keyedMutex
	flights   overlay.Flights[Change]
	foreign   foreignWatch
	drifted   driftWatch
	attempts  attempts
	digests   record.Digests
	creations creations
	// largestChart is the size in bytes of the largest chart so far.
	largestChart atomic.Int64
	namespaces   []string
	maxHistory   int
	timeout      time.Duration
	logger       *slog.Logger
	loggerFor    func(ctx context.Context) *slog.Logger
	clock        clock.PassiveClock
	onOperation  func(Operation)

	mu          sync.Mutex
	subscribers []func(release cache.ObjectName, change Change)
}

// New returns an engine. It sends no request before [Engine.Run], which must run for all
// other methods to work.
func New(config Config) (*Engine, error) {
	if config.RESTConfig == nil {
		return nil, errors.New("helm engine: RESTConfig is required")
	}
	client := config.HTTPClient
	if client == nil {
		var err error
		if client, err = rest.HTTPClientFor(config.RESTConfig); err != nil {
			return nil, fmt.Errorf("helm engine: %w", err)
		}
	}
	server, _, err := rest.DefaultServerUrlFor(config.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("helm engine: %w", err)
	}
	guarded := *client
	guarded.Transport = &guard{
		next: cmp.Or(client.Transport, http.DefaultTransport), root: strings.TrimSuffix(server.Path, "/"), namespaces: config.Namespaces,
	}
	client = &guarded
	// Release records are large. Protobuf avoids a second base64 encoding.
	builtin := rest.CopyConfig(config.RESTConfig)
	builtin.ContentType = runtime.ContentTypeProtobuf
	builtin.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	clientset, err1 := kubernetes.NewForConfigAndClient(builtin, client)
	dynamicClient, err2 := dynamic.NewForConfigAndClient(config.RESTConfig, client)
	metadataClient, err3 := metadata.NewForConfigAndClient(config.RESTConfig, client)
	discoveryClient, err4 := discovery.NewDiscoveryClientForConfigAndClient(config.RESTConfig, client)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, fmt.Errorf("helm engine: %w", err)
	}
	e := &Engine{
		// The credentials are in the HTTP client.
		remote:      &rest.Config{Host: server.String(), UserAgent: config.RESTConfig.UserAgent, QPS: config.RESTConfig.QPS, Burst: config.RESTConfig.Burst, Transport: client.Transport},
		clientset:   clientset,
		dynamic:     dynamicClient,
		metadata:    metadataClient,
		bodies:      record.NewCache(bodyCacheBytes),
		namespaces:  config.Namespaces,
		maxHistory:  config.MaxHistory,
		timeout:     config.Timeout,
		logger:      config.Logger,
		loggerFor:   config.LoggerFor,
		clock:       config.Clock,
		onOperation: config.OnOperation,
	}
	e.setDefaults()
	watchErrors := watchErrorHandlers(config.OnWatchError)
	e.mapper = newKindMapper(discoveryClient, e.clock, e.logger)
	e.mapper.watchErrors = config.OnWatchError
	e.sources = newSources(builtin, client, dynamicClient, metadataClient)
	e.watcher = newWatcher(e.sources, config.Namespaces, &e.foreign, &e.drifted, watchErrors, e.publish)
	if e.records, err = record.NewIndex(metadataClient, config.Namespaces, watchErrors(WatchedRecords), e.publishRecord); err != nil {
		return nil, fmt.Errorf("helm engine: %w", err)
	}
	return e, nil
}

// watchErrorHandlers returns a function that returns the watch error handler of an informer, by
// what it watches.
func watchErrorHandlers(report func(watched string, err error)) func(watched string) cache.WatchErrorHandlerWithContext {
	return func(watched string) cache.WatchErrorHandlerWithContext {
		return func(ctx context.Context, reflector *cache.Reflector, err error) {
			if report != nil {
				report(watched, err)
			}
			if apierrors.IsNotFound(err) {
				return // The CRD of a kind is gone. The reflector tries again.
			}
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
		}
	}
}

func (e *Engine) setDefaults() {
	if e.maxHistory <= 0 {
		e.maxHistory = DefaultMaxHistory
	}
	if e.timeout <= 0 {
		e.timeout = DefaultTimeout
	}
	if e.logger == nil {
		e.logger = slog.Default()
	}
	if e.loggerFor == nil {
		e.loggerFor = func(context.Context) *slog.Logger { return e.logger }
	}
	if e.clock == nil {
		e.clock = clock.RealClock{}
	}
	if e.onOperation == nil {
		e.onOperation = func(Operation) {}
	}
}

// Run watches the release records, and the objects of the observed releases. It returns
// when ctx and all watches have ended.
func (e *Engine) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() {
		// The first operation then need not wait for discovery. If this fails, the
		// operation tries again and reports the error.
		if _, err := e.mapper.current(); err != nil {
			e.logger.WarnContext(ctx, "Could not discover what the API server serves", slog.Any("err", err))
		}
	})
	running.Go(func() { e.mapper.run(ctx, e.metadata) })
	running.Go(func() { e.records.Run(ctx) })
	running.Go(func() { e.watcher.run(ctx) })
	running.Wait()
}

// HasSynced reports whether the release records are known. No operation may start
// before that.
func (e *Engine) HasSynced() bool { return e.records.HasSynced() }

// Subscribe registers a function that is called for every change that this engine did
// not make from now on. The function must not block.
func (e *Engine) Subscribe(subscriber func(release cache.ObjectName, change Change)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscribers = append(e.subscribers, subscriber)
}

// SubscribeKinds registers a function that is called when a CRD or an API service changes,
// so the API server may serve other kinds now. Discovery may show them only a moment later.
// The function must not block.
func (e *Engine) SubscribeKinds(subscriber func()) {
	e.mapper.mu.Lock()
	defer e.mapper.mu.Unlock()
	e.mapper.subscribers = append(e.mapper.subscribers, subscriber)
}

// Resource returns the resource of a kind, and whether the resource is namespaced. The error
// is a [meta.NoKindMatchError] if the API server does not serve the kind. Resource asks the
// API server only if the kind is unknown, and not at each call.
func (e *Engine) Resource(kind schema.GroupVersionKind) (resource schema.GroupVersionResource, namespaced bool, err error) {
	mapping, err := e.mapper.mapping(kind)
	if err != nil {
		return schema.GroupVersionResource{}, false, err
	}
	return mapping.Resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// publish reports a change to the subscribers, after the operation in flight if there is
// one.
func (e *Engine) publish(n overlay.Notice[Change]) {
	if n.Owner.Name == "" || e.flights.Hold(n) {
		return
	}
	e.mu.Lock()
	subscribers := e.subscribers
	e.mu.Unlock()
	for _, subscriber := range subscribers {
		subscriber(n.Owner, n.Change)
	}
}

// publishRecord reports a change of a release record.
func (e *Engine) publishRecord(release cache.ObjectName, secret metav1.Object, gone bool) {
	e.publish(overlay.NoticeOf(release, RecordChanged, secret, gone))
}

// Snapshot is the observed state of a release.
type Snapshot struct {
	// Record is the newest revision; nil when there is none.
	Record *record.Record
	// LastGood is the revision to roll back to if Record failed: the newest revision
	// before Record that was deployed, did not fail, was not rolled back from, and has a
	// verified record. It is nil when there is none.
	LastGood *record.Record
	// Revisions are the digests of the revisions whose records can be verified: the digests of the
	// given baseline, and the digests that this engine has recorded. Store them in the next
	// baseline.
	Revisions []record.Digest
	// Unverified means that Revisions has no digest for Record. The revision is then made again
	// from the chart, under the same number.
	Unverified bool
	// Remembered says that the given baseline belongs to this release, to any of its
	// revisions.
	Remembered bool
	// BaselineKnown says that the given baseline belongs to the newest revision, so that
	// Drifts and Health are known.
	BaselineKnown bool
	// Completed are the entries of the baseline's inventory whose digest an earlier version of the
	// operator recorded, without a time, and whose objects have not drifted. These entries have the
	// digest of the live object, and replace the entries of the baseline. Until then, a change
	// under the engine's field manager is not drift.
	Completed []InventoryEntry
	// StillDeployed is the revision of the given baseline if the revision is an older one and all
	// later attempts of the engine failed or were interrupted. Otherwise, it is nil. Drifts and
	// Health then describe its objects, and [ActionRepair] repairs them. If the baseline comes from
	// the error of Execute, objects that the failed attempt applied count with the state after that
	// attempt.
	StillDeployed *record.Record
	Drifts        []Drift
	// Drifted identifies the state of the drifted objects. It changes when another client changes
	// one of these objects again. It is empty without drift.
	Drifted string
	Health  []ObjectHealth
}

// Verifies reports whether there is a digest to verify the record of a revision.
func (s Snapshot) Verifies(revision int) bool { return record.DigestFor(s.Revisions, revision) != "" }

// Observe returns the observed state of a release. It sends no request, except to watch further
// kinds. It waits until these watches are filled. The error wraps [ErrNotSynced] when they are not
// filled in time.
func (e *Engine) Observe(ctx context.Context, release cache.ObjectName, baseline Baseline) (Snapshot, error) {
	snapshot := Snapshot{Remembered: baseline.Revision != 0}
	history := e.records.History(release)
	if len(history) > 0 {
		snapshot.Revisions = e.digests.Of(release, baseline.Revisions, history)
		snapshot.Record, snapshot.LastGood = history[len(history)-1], record.LastGood(history, snapshot.Revisions)
		snapshot.Unverified = !snapshot.Verifies(snapshot.Record.Revision)
	}
	deployed := record.Deployed(history, baseline.Revision, snapshot.Revisions)
	if deployed == nil {
		return snapshot, nil
	}
	within := bounds{namespace: release.Namespace, scope: baseline.Scope, namespaces: e.namespaces}
	inventory := slices.DeleteFunc(slices.Clone(baseline.Inventory), func(entry InventoryEntry) bool { return !within.allow(entry.Namespace) })
	mappings, err := e.mappings(inventory)
	if err == nil {
		err = e.watcher.need(ctx, release, slices.Collect(maps.Values(mappings)))
	}
	if err != nil {
		return snapshot, fmt.Errorf("observe release %s: %w", release, err)
	}
	if snapshot.BaselineKnown = deployed == snapshot.Record; !snapshot.BaselineKnown {
		snapshot.StillDeployed = deployed
	}
	e.creations.forget(release)
	e.foreign.set(release, baseline.RemoveForeign, baseline.Ignore)
	var drifted []types.UID
	states := sha256.New()
	for i, entry := range inventory {
		got, doubted := (*observed)(nil), false
		mapping, served := mappings[entry.groupVersionKind()]
		if served {
			view := e.watcher.view(mapping, entry.Namespace)
			if view == nil {
				continue // Its namespace is not watched.
			}
			if got, _ = view.Get(entry.Namespace, entry.Name); got != nil {
				doubted = view.IsDoubted(got)
			}
		}
		found := e.driftsOf(release, entry, got, served, doubted)
		snapshot.Drifts = append(snapshot.Drifts, found...)
		if len(found) == 0 && got.trace.Fingerprint != entry.Digest {
			entry.Digest = got.trace.Fingerprint
			snapshot.Completed = append(snapshot.Completed, entry)
		}
		for _, drift := range found {
			fmt.Fprintln(states, i, drift.Kind)
		}
		if len(found) > 0 && got != nil {
			fmt.Fprintln(states, got.UID, got.trace.Fingerprint, got.edition())
			drifted = append(drifted, got.UID)
		}
		if got != nil {
			snapshot.Health = append(snapshot.Health, ObjectHealth{Object: entry.ObjectReference, Health: got.health})
		}
	}
	if len(snapshot.Drifts) > 0 {
		snapshot.Drifted = hex.EncodeToString(states.Sum(nil)[:16])
	}
	e.drifted.note(release, drifted)
	return snapshot, nil
}

// driftsOf returns how an object differs from its baseline: in fields that other clients
// added, and in fields that the engine applied.
func (e *Engine) driftsOf(release cache.ObjectName, entry InventoryEntry, got *observed, served, doubted bool) []Drift {
	var found []Drift
	if got != nil && e.foreign.has(release, got) {
		found = append(found, Drift{Object: entry.ObjectReference, Kind: DriftForeign})
	}
	if kind := compare(entry, got, doubted); kind != "" {
		found = append(found, Drift{Object: entry.ObjectReference, Kind: kind, Unserved: !served})
	}
	return found
}

// mappings returns the mappings of the kinds in the inventory. A kind that is no longer
// served has none, and no objects.
func (e *Engine) mappings(inventory []InventoryEntry) (map[schema.GroupVersionKind]*meta.RESTMapping, error) {
	mappings := map[schema.GroupVersionKind]*meta.RESTMapping{}
	for _, entry := range inventory {
		kind := entry.groupVersionKind()
		if _, known := mappings[kind]; known {
			continue
		}
		mapping, err := e.mapper.mapping(kind)
		if err != nil && !meta.IsNoMatchError(err) {
			return nil, err
		}
		if err == nil {
			mappings[kind] = mapping
		}
	}
	return mappings, nil
}

// Decide is the package's Decide at the current time, with the release's timeout as
// patience. It refuses a release of another owner.
func (e *Engine) Decide(release Release, observed Snapshot) (Decision, error) {
	if newest := observed.Record; newest != nil && !release.owns(record.OwnerOf(release.Owner), newest, observed.Remembered) {
		return Decision{Action: ActionRefuse, Cause: CauseOtherOwner}, nil
	}
	e.recordLimit(release.Chart) // Operations without a chart need the limit.
	inputs, err := release.InputDigest()
	if err != nil {
		return Decision{}, &RenderError{Chart: release.Chart.Name(), Err: err}
	}
	return Decide(inputs, observed, e.clock.Now(), e.limitsOf(release).timeout), nil
}

// limits are the limits of one operation.
type limits struct {
	timeout    time.Duration
	maxHistory int
}

func (e *Engine) limitsOf(release Release) limits {
	l := limits{timeout: release.Timeout, maxHistory: release.MaxHistory}
	if l.timeout <= 0 {
		l.timeout = e.timeout
	}
	l.timeout = min(l.timeout, MaxTimeout)
	if l.maxHistory <= 0 {
		l.maxHistory = e.maxHistory
	}
	return l
}

// Forget drops the state of a release that will not be observed again.
func (e *Engine) Forget(release cache.ObjectName) {
	e.watcher.forget(release)
	e.forgetRecords(release)
}

// forgetRecords drops the state of a release, except for its watches.
func (e *Engine) forgetRecords(release cache.ObjectName) {
	e.attempts.forget(release)
	e.digests.Forget(release)
	e.creations.forget(release)
	e.foreign.set(release, false, nil)
	e.drifted.note(release, nil)
}

// keyedMutex has a lock for each release.
type keyedMutex struct {
	mu    sync.Mutex
	locks map[cache.ObjectName]*keyLock
}

type keyLock struct {
	sync.Mutex

	waiting int
}

// lock locks a release. It returns the function that unlocks it.
func (k *keyedMutex) lock(key cache.ObjectName) func() {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[cache.ObjectName]*keyLock{}
	}
	held, ok := k.locks[key]
	if !ok {
		held = &keyLock{}
		k.locks[key] = held
	}
	held.waiting++
	k.mu.Unlock()
	held.Lock()
	return func() {
		held.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if held.waiting--; held.waiting == 0 {
			delete(k.locks, key)
		}
	}
}
