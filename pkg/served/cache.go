// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/metacache"
)

const (
	// UnknownKindInterval is the shortest time between two discoveries because of unknown
	// kinds.
	UnknownKindInterval = 10 * time.Second
	// StaleInterval is the shortest time between two discoveries because a CRD or an API
	// service changed. Many CRDs often arrive together.
	StaleInterval = time.Second
	// settlingTime is the time after such a change in which discovery may not show all
	// kinds yet. Unknown kinds are then looked up at the shorter interval.
	settlingTime = 30 * time.Second
)

// CacheConfig configures a [Cache].
type CacheConfig struct {
	Discovery discovery.DiscoveryInterface
	Metadata  metadata.Interface
	Clock     clock.PassiveClock
	Logger    *slog.Logger
	// OnWatchError is called for each error of a list or watch. Optional.
	OnWatchError func(watched string, err error)
}

// Cache caches discovery, so that its users send no further requests. After a CRD or an API service
// has changed, the next use discovers again. It is safe for concurrent use.
type Cache struct {
	CacheConfig

	discovery discovery.CachedDiscoveryInterface
	mapper    meta.ResettableRESTMapper

	mu sync.Mutex
	// mappings were found since the last discovery. generation counts the discoveries.
	mappings map[schema.GroupVersionKind]*meta.RESTMapping
	// others are the mappings of kinds in another version, see [Cache.MappingInAnyVersion].
	others     map[schema.GroupVersionKind]*meta.RESTMapping
	generation int
	discovered time.Time
	noticed    time.Time // The time of the last change.
	stale      bool
	// subscribers are called after a change.
	subscribers []func()
}

// NewCache returns a cache that sends its first request when it is used.
func NewCache(config CacheConfig) *Cache {
	cached := memory.NewMemCacheClient(config.Discovery)
	return &Cache{
		CacheConfig: config,
		discovery:   cached,
		mapper:      restmapper.NewDeferredDiscoveryRESTMapper(cached),
		mappings:    map[schema.GroupVersionKind]*meta.RESTMapping{},
		others:      map[schema.GroupVersionKind]*meta.RESTMapping{},
	}
}

// Subscribe registers a function that is called when a CRD or an API service changes, so the API
// server may serve other kinds now. Discovery may show them only a moment later. The function must
// not block.
func (c *Cache) Subscribe(subscriber func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(c.subscribers, subscriber)
}

// Resource returns the resource of a kind, see [Cache.Mapping].
func (c *Cache) Resource(kind schema.GroupVersionKind) (Resource, error) {
	mapping, err := c.Mapping(kind)
	if err != nil {
		return Resource{}, err
	}
	return Resource{mapping.Resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

// Generation returns how often discovery was renewed. If it is stale, it is renewed first.
func (c *Cache) Generation() int {
	c.renew()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.discovered.IsZero() {
		c.discovered = c.Clock.Now()
	}
	return c.generation
}

// Mapping returns the mapping of a kind. It discovers again for an unknown kind, in case
// its CRD is new. It fails with a [meta.NoKindMatchError] only if the API server does not
// serve the kind. If an aggregated API does not answer, the error is another one.
func (c *Cache) Mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	c.renew()
	c.mu.Lock()
	known, ok := c.mappings[kind]
	generation := c.generation
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	mapping, err := c.find(kind)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation == c.generation {
		c.mappings[kind] = mapping
	}
	return mapping, nil
}

// MappingInAnyVersion is [Cache.Mapping] for objects that exist. If the API server does not serve
// the version any more, it returns the mapping of a version that is served: an object is the same in
// all versions of its kind. It fails with a [meta.NoKindMatchError] only if no version is served.
func (c *Cache) MappingInAnyVersion(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	c.renew()
	c.mu.Lock()
	known, ok := c.others[kind]
	c.mu.Unlock()
	if ok {
		return known, nil // Asking for the version again would discover again.
	}
	mapping, missing := c.Mapping(kind)
	if !meta.IsNoMatchError(missing) {
		return mapping, missing
	}
	c.mu.Lock()
	generation := c.generation
	c.mu.Unlock()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind())
	if meta.IsNoMatchError(err) {
		if err := c.silent(kind.Group); err != nil {
			return nil, err
		}
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation == c.generation {
		c.others[kind] = mapping
	}
	return mapping, nil
}

// silent returns the error of a version of the group that does not answer. Any of its kinds may be
// served in that version.
func (c *Cache) silent(group string) error {
	groups, err := c.discovery.ServerGroups()
	if err != nil {
		return fmt.Errorf("versions of %s: %w", group, err)
	}
	for _, found := range groups.Groups {
		for _, version := range found.Versions {
			if found.Name != group {
				continue
			}
			if _, err := c.listed(schema.GroupVersionKind{Group: group, Version: version.Version}); err != nil {
				return err
			}
		}
	}
	return nil
}

// find searches all kinds that the API server serves.
func (c *Cache) find(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) && c.mayRefresh(c.patience()) {
		c.refresh()
		mapping, err = c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if meta.IsNoMatchError(err) {
		served, silent := c.listed(kind)
		if silent != nil {
			return nil, silent
		}
		if served {
			// The API answers again.
			c.refresh()
			mapping, err = c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		}
	}
	return mapping, err
}

// Serves reports whether discovery shows a kind that was just defined. If not, it
// discovers again, but not at each call.
func (c *Cache) Serves(kind schema.GroupKind) (bool, error) {
	c.renew()
	_, err := c.mapper.RESTMapping(kind)
	if meta.IsNoMatchError(err) && c.mayRefresh(StaleInterval) {
		c.refresh()
		_, err = c.mapper.RESTMapping(kind)
	}
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// listed reports whether the API of a kind lists it. It fails when the API does not answer.
func (c *Cache) listed(kind schema.GroupVersionKind) (bool, error) {
	version := kind.GroupVersion().String()
	kinds, err := c.KindsOf(version)
	if errors.Is(err, memory.ErrCacheNotFound) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("kinds of %s: %w", version, err)
	}
	return slices.ContainsFunc(kinds.APIResources, func(resource metav1.APIResource) bool { return resource.Kind == kind.Kind }), nil
}

// KindsOf returns the kinds of a group version, which may be stale.
func (c *Cache) KindsOf(groupVersion string) (*metav1.APIResourceList, error) {
	return c.discovery.ServerResourcesForGroupVersion(groupVersion)
}

func (c *Cache) mayRefresh(interval time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Clock.Since(c.discovered) >= interval
}

// patience returns the shortest time between two discoveries because of unknown kinds.
func (c *Cache) patience() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Clock.Since(c.noticed) < settlingTime {
		return StaleInterval
	}
	return UnknownKindInterval
}

// changed notes that the last discovery is out of date.
func (c *Cache) changed() {
	c.mu.Lock()
	c.stale, c.noticed = true, c.Clock.Now()
	subscribers := c.subscribers
	c.mu.Unlock()
	for _, subscriber := range subscribers {
		subscriber()
	}
}

// Doubt notes that an answer of the API server contradicts the last discovery. Without permission to
// watch CRDs, nothing else shows that a version is no longer served.
func (c *Cache) Doubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stale = true
}

// renew drops the last discovery if it is stale.
func (c *Cache) renew() {
	c.mu.Lock()
	stale := c.stale
	c.mu.Unlock()
	if stale && c.mayRefresh(StaleInterval) {
		c.refresh()
	}
}

// Expire makes the next use discover again. Discovery may show a change only a moment later.
func (c *Cache) Expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stale = true
}

// Run notes each change to CRDs and API services that may change the served kinds, until ctx ends. Without permission to watch
// them, only unknown kinds lead to a new discovery.
func (c *Cache) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, resource := range []schema.GroupVersionResource{
		Definitions,
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
	} {
		running.Go(func() { c.watch(ctx, resource) })
	}
	running.Wait()
}

func (c *Cache) watch(ctx context.Context, resource schema.GroupVersionResource) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	informer, err := metacache.NewInformer(nil, c.Metadata, resource, metav1.NamespaceAll, nil, reduce)
	err = errors.Join(
		err,
		informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			if c.OnWatchError != nil {
				c.OnWatchError(resource.GroupResource().String(), err)
			}
			if apierrors.IsForbidden(err) {
				c.Logger.WarnContext(ctx, "Cannot watch for changes to what the API server serves", slog.String("resource", resource.Resource), slog.Any("err", err))
				stop()
				return
			}
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}),
	)
	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(_ any, initial bool) {
				if !initial {
					c.changed()
				}
			},
			UpdateFunc: func(before, after any) {
				if mayServeOthers(before.(*metav1.PartialObjectMetadata), after.(*metav1.PartialObjectMetadata)) {
					c.changed()
				}
			},
			DeleteFunc: func(any) { c.changed() },
		})
	}
	if err != nil {
		c.Logger.WarnContext(ctx, "Cannot watch for changes to what the API server serves", slog.String("resource", resource.Resource), slog.Any("err", err))
		return
	}
	informer.RunWithContext(ctx)
}

// refresh drops the cached discovery, so that the next use sends requests.
func (c *Cache) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.discovered = c.Clock.Now()
	c.stale = false
	c.generation++
	clear(c.mappings)
	clear(c.others)
	c.mapper.Reset() // It invalidates the discovery cache, too.
}

// keptDiscovery keeps one user from invalidating the discovery of all other users. Helm tries so
// whenever a chart has CRDs.
type keptDiscovery struct {
	discovery.CachedDiscoveryInterface
}

// Invalidate implements discovery.CachedDiscoveryInterface.
func (keptDiscovery) Invalidate() {}

// keptMapper keeps one user from resetting the mapper, see keptDiscovery.
type keptMapper struct {
	meta.RESTMapper
}

// ToDiscoveryClient returns the discovery, as genericclioptions.RESTClientGetter does.
func (c *Cache) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return keptDiscovery{c.discovery}, nil
}

// ToRESTMapper returns the mapper, as genericclioptions.RESTClientGetter does.
func (c *Cache) ToRESTMapper() (meta.RESTMapper, error) { return keptMapper{c.mapper}, nil }
