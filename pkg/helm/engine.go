// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/helm/functions"
	"github.com/example/demoapp-controller/pkg/helm/guard"
	"github.com/example/demoapp-controller/pkg/helm/live"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/overlay"
	"github.com/example/demoapp-controller/pkg/served"
	"github.com/example/demoapp-controller/pkg/shardcache"
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
	// HealthChanged means that the health of an object of the release changed, or that its objects of
	// a kind can or cannot be observed any more.
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
	// Shards are the shards whose release records and objects are cached; nil means all. An operation
	// needs the shard of the release. With Shards, releases must not have objects in other namespaces.
	Shards *shardcache.Selection
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
	// OnWatchError, when set, is called for each error of a list or watch, with the name of the
	// watched resource: WatchedRecords, or a resource such as "deployments.apps". Watches also end
	// normally with an error, see cache.DefaultWatchErrorHandler.
	OnWatchError func(watched string, err error)
	// OnOperation, when set, is called after every operation that sent a request.
	OnOperation func(Operation)
}

// Operation describes an operation that has ended.
type Operation struct {
	Release cache.ObjectName
	// Action is Install, Upgrade, Rollback, Reapply, Repair, Uninstall, LetGo, Mark or
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
		ActionInstall, ActionUpgrade, ActionRollback, ActionReapply, ActionRepair, actionUninstall, actionLetGo, actionMark, actionExplain,
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
	sources   *live.Sources
	watcher   *live.Watcher
	bodies    *record.Cache
	locks     keyedMutex
	flights   overlay.Flights[Change]
	attempts  attempts
	digests   record.Digests
	creations creations
	// kindChanges reports other kinds of the API server to releases that wait for them.
	kindChanges *kindChanges
	left        leftByRelease
	// renderings are the turns of the renderings of each namespace.
	renderings functions.Turns
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
	guarded.Transport = &guard.Transport{
		Next: &live.Transport{Next: cmp.Or(client.Transport, http.DefaultTransport)}, Root: strings.TrimSuffix(server.Path, "/"), Namespaces: config.Namespaces,
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
	e.mapper = &kindMapper{Cache: served.NewCache(served.CacheConfig{
		Discovery: discoveryClient, Metadata: metadataClient, Clock: e.clock, Logger: e.logger, OnWatchError: config.OnWatchError,
	})}
	e.kindChanges = newKindChanges()
	e.mapper.Subscribe(e.kindChanges.notice)
	e.sources = live.NewSources(builtin, client, dynamicClient, metadataClient)
	e.watcher = live.NewWatcher(e.sources, config.Shards, config.Namespaces, watchErrors, e.publishObject, e.publishObservable)
	if e.records, err = record.NewIndex(config.Shards, metadataClient, config.Namespaces, watchErrors(WatchedRecords), e.publishRecord); err != nil {
		return nil, fmt.Errorf("helm engine: %w", err)
	}
	return e, nil
}

// watchErrorHandlers returns a function that returns the watch error handler of an informer, by the
// name of the watched resource.
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
	running.Go(func() { e.mapper.Run(ctx) })
	running.Go(func() { e.reportKinds(ctx) })
	running.Go(func() { e.records.Run(ctx) })
	running.Go(func() { e.watcher.Run(ctx) })
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

// Kinds returns the kinds that the API server serves. Run keeps it up to date.
func (e *Engine) Kinds() *served.Cache { return e.mapper.Cache }

// publish reports a change to the subscribers, after the operation in flight if there is
// one.
func (e *Engine) publish(n overlay.Notice[Change]) {
	if n.Owner.Name == "" || e.flights.Hold(n) {
		return
	}
	e.report(n.Owner, n.Change)
}

// report calls the subscribers.
func (e *Engine) report(release cache.ObjectName, change Change) {
	e.mu.Lock()
	subscribers := e.subscribers
	e.mu.Unlock()
	for _, subscriber := range subscribers {
		subscriber(release, change)
	}
}

// publishObservable reports that a kind of a release can or cannot be observed any more.
func (e *Engine) publishObservable(release cache.ObjectName) {
	e.report(release, HealthChanged)
}

// publishObject reports a change of an object.
func (e *Engine) publishObject(event live.Event) {
	change := ObjectChanged
	if event.HealthOnly {
		change = HealthChanged
	}
	e.publish(overlay.NoticeOf(event.View, event.Release, change, event.Object, event.Gone))
}

// publishRecord reports a change of a release record.
func (e *Engine) publishRecord(release cache.ObjectName, secret metav1.Object, gone bool) {
	e.publish(overlay.NoticeOf(e.records.View(release.Namespace), release, RecordChanged, secret, gone))
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
	e.watcher.Forget(release)
	e.kindChanges.forget(release)
	e.left.set(release, nil)
	e.forgetRecords(release)
}

// forgetRecords drops the state of a release, except for its watches.
func (e *Engine) forgetRecords(release cache.ObjectName) {
	e.attempts.forget(release)
	e.digests.Forget(release)
	e.creations.forget(release)
	e.watcher.Foreign.Set(release, false, nil)
	e.watcher.Drifted.Note(release, nil)
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
