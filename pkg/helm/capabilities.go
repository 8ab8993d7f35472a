// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
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
	// unknownKindInterval is the shortest time between two discoveries because of unknown
	// kinds.
	unknownKindInterval = 10 * time.Second
	// staleInterval is the shortest time between two discoveries because a CRD or an API
	// service changed. Many CRDs often arrive together.
	staleInterval = time.Second
	// settlingTime is the time after such a change in which discovery may not show all
	// kinds yet. Unknown kinds are then looked up at the shorter interval.
	settlingTime = 30 * time.Second
)

// kindMapper caches discovery: the mapping from kinds to resources, and the capabilities that
// templates see. All operations share it, so that they send no further discovery requests. After a
// CRD or an API service has changed, the next use discovers again.
type kindMapper struct {
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.ResettableRESTMapper
	clock     clock.PassiveClock
	logger    *slog.Logger
	// watchErrors, if it is not nil, is called for each error of a list or watch.
	watchErrors func(watched string, err error)

	mu sync.Mutex
	// mappings were found since the last discovery. generation counts the discoveries.
	mappings     map[schema.GroupVersionKind]*meta.RESTMapping
	generation   int
	capabilities *common.Capabilities
	discovered   time.Time
	noticed      time.Time // The time of the last change.
	stale        bool
	// subscribers are called after a change.
	subscribers []func()
}

func newKindMapper(client discovery.DiscoveryInterface, clock clock.PassiveClock, logger *slog.Logger) *kindMapper {
	cached := memory.NewMemCacheClient(client)
	return &kindMapper{
		discovery: cached,
		mapper:    restmapper.NewDeferredDiscoveryRESTMapper(cached),
		mappings:  map[schema.GroupVersionKind]*meta.RESTMapping{},
		clock:     clock,
		logger:    logger,
	}
}

// mapping returns the mapping of a kind. It discovers again for an unknown kind, in case
// its CRD is new. It fails with a [meta.NoKindMatchError] only if the API server does not
// serve the kind. If an aggregated API does not answer, the error is another one.
func (m *kindMapper) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	m.renew()
	m.mu.Lock()
	known, ok := m.mappings[kind]
	generation := m.generation
	m.mu.Unlock()
	if ok {
		return known, nil
	}
	mapping, err := m.find(kind)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if generation == m.generation {
		m.mappings[kind] = mapping
	}
	return mapping, nil
}

// find searches all kinds that the API server serves.
func (m *kindMapper) find(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := m.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) && m.mayRefresh(m.patience()) {
		m.refresh()
		mapping, err = m.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if meta.IsNoMatchError(err) {
		served, silent := m.serves(kind)
		if silent != nil {
			return nil, silent
		}
		if served {
			// The API answers again.
			m.refresh()
			mapping, err = m.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		}
	}
	return mapping, err
}

// serving reports whether discovery shows a kind that was just defined. If not, it
// discovers again, but not at each call.
func (m *kindMapper) serving(kind schema.GroupKind) (bool, error) {
	m.renew()
	_, err := m.mapper.RESTMapping(kind)
	if meta.IsNoMatchError(err) && m.mayRefresh(staleInterval) {
		m.refresh()
		_, err = m.mapper.RESTMapping(kind)
	}
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// serves reports whether the API of a kind lists it. It fails when the API does not answer.
func (m *kindMapper) serves(kind schema.GroupVersionKind) (bool, error) {
	version := kind.GroupVersion().String()
	kinds, err := m.discovery.ServerResourcesForGroupVersion(version)
	if errors.Is(err, memory.ErrCacheNotFound) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("kinds of %s: %w", version, err)
	}
	return slices.ContainsFunc(kinds.APIResources, func(resource metav1.APIResource) bool { return resource.Kind == kind.Kind }), nil
}

func (m *kindMapper) mayRefresh(interval time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock.Since(m.discovered) >= interval
}

// patience returns the shortest time between two discoveries because of unknown kinds.
func (m *kindMapper) patience() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clock.Since(m.noticed) < settlingTime {
		return staleInterval
	}
	return unknownKindInterval
}

// changed notes that the last discovery is out of date.
func (m *kindMapper) changed() {
	m.mu.Lock()
	m.stale, m.noticed = true, m.clock.Now()
	subscribers := m.subscribers
	m.mu.Unlock()
	for _, subscriber := range subscribers {
		subscriber()
	}
}

// renew drops the last discovery if it is stale.
func (m *kindMapper) renew() {
	m.mu.Lock()
	stale := m.stale
	m.mu.Unlock()
	if stale && m.mayRefresh(staleInterval) {
		m.refresh()
	}
}

// run notes every change to CRDs and API services until ctx ends. Without permission to
// watch them, only unknown kinds lead to a new discovery.
func (m *kindMapper) run(ctx context.Context, client metadata.Interface) {
	var running sync.WaitGroup
	for _, resource := range []schema.GroupVersionResource{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
	} {
		running.Go(func() { m.watch(ctx, client, resource) })
	}
	running.Wait()
}

func (m *kindMapper) watch(ctx context.Context, client metadata.Interface, resource schema.GroupVersionResource) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	informer, err := metacache.NewInformer(client, resource, metav1.NamespaceAll, nil, metacache.Identity)
	err = errors.Join(
		err,
		informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			if m.watchErrors != nil {
				m.watchErrors(resource.GroupResource().String(), err)
			}
			if apierrors.IsForbidden(err) {
				m.logger.WarnContext(ctx, "Cannot watch for changes to what the API server serves", slog.String("resource", resource.Resource), slog.Any("err", err))
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
					m.changed()
				}
			},
			UpdateFunc: func(before, after any) {
				was, is := before.(*metav1.PartialObjectMetadata), after.(*metav1.PartialObjectMetadata)
				if was.ResourceVersion != is.ResourceVersion {
					m.changed()
				}
			},
			DeleteFunc: func(any) { m.changed() },
		})
	}
	if err != nil {
		m.logger.WarnContext(ctx, "Cannot watch for changes to what the API server serves", slog.String("resource", resource.Resource), slog.Any("err", err))
		return
	}
	informer.RunWithContext(ctx)
}

// namespaced reports whether the kind is namespaced.
func (m *kindMapper) namespaced(kind schema.GroupVersionKind) (bool, error) {
	mapping, err := m.mapping(kind)
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// refresh drops the cached discovery, so that the next use sends requests.
func (m *kindMapper) refresh() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.discovered = m.clock.Now()
	m.stale = false
	m.capabilities = nil
	m.generation++
	clear(m.mappings)
	m.mapper.Reset() // It invalidates the discovery cache, too.
}

// current returns a copy of the capabilities that charts see.
func (m *kindMapper) current() (*common.Capabilities, error) {
	m.renew()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.capabilities == nil {
		version, err := m.discovery.ServerVersion()
		if err != nil {
			return nil, fmt.Errorf("version of the API server: %w", err)
		}
		apis, err := action.GetVersionSet(m.discovery)
		if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
			return nil, fmt.Errorf("kinds of the API server: %w", err)
		}
		m.capabilities = &common.Capabilities{
			APIVersions: apis,
			KubeVersion: common.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
			HelmVersion: common.DefaultCapabilities.HelmVersion,
		}
		m.discovered = m.clock.Now()
	}
	return m.capabilities.Copy(), nil
}

// keptDiscovery keeps Helm from invalidating the shared discovery, which it does whenever
// a chart has CRDs. The wait for the CRDs has renewed the discovery if necessary.
type keptDiscovery struct {
	discovery.CachedDiscoveryInterface
}

// Invalidate implements discovery.CachedDiscoveryInterface.
func (keptDiscovery) Invalidate() {}

// keptMapper keeps Helm from resetting the shared mapper, see keptDiscovery.
type keptMapper struct {
	meta.RESTMapper
}

// ToDiscoveryClient implements action.RESTClientGetter.
func (m *kindMapper) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return keptDiscovery{m.discovery}, nil
}

// ToRESTMapper implements action.RESTClientGetter.
func (m *kindMapper) ToRESTMapper() (meta.RESTMapper, error) { return keptMapper{m.mapper}, nil }
