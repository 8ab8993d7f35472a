// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/clock"
)

// discoveryInterval is the least time between two discoveries that unknown
// kinds cause.
const discoveryInterval = 10 * time.Second

// kindMapper knows what the API server serves: the mapping from kinds to
// resources, and the capabilities that templates see. All operations share it,
// so that none of them asks the API server again.
type kindMapper struct {
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.ResettableRESTMapper
	config    *rest.Config
	clock     clock.PassiveClock

	mu           sync.Mutex
	capabilities *common.Capabilities
	discovered   time.Time
}

func newKindMapper(client discovery.DiscoveryInterface, config *rest.Config, clock clock.PassiveClock) *kindMapper {
	cached := memory.NewMemCacheClient(client)
	return &kindMapper{
		discovery: cached,
		mapper:    restmapper.NewDeferredDiscoveryRESTMapper(cached),
		config:    config,
		clock:     clock,
	}
}

// mapping returns the mapping of a kind. An unknown kind is looked for once
// more, because its CRD may be new.
func (m *kindMapper) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := m.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) && m.mayRefresh() {
		m.refresh()
		mapping, err = m.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	return mapping, err
}

func (m *kindMapper) mayRefresh() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock.Since(m.discovered) >= discoveryInterval
}

// namespaced reports whether objects of the kind lie in a namespace.
func (m *kindMapper) namespaced(kind schema.GroupVersionKind) (bool, error) {
	mapping, err := m.mapping(kind)
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// refresh forgets what is known of the API server. The next question asks it.
func (m *kindMapper) refresh() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.discovered = m.clock.Now()
	m.capabilities = nil
	m.mapper.Reset() // It invalidates the discovery cache, too.
}

// current returns the capabilities for a chart to see. The caller may change
// the copy.
func (m *kindMapper) current() (*common.Capabilities, error) {
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

// ToRESTConfig implements action.RESTClientGetter. The template function lookup
// makes its client from it.
func (m *kindMapper) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(m.config), nil }

// ToDiscoveryClient implements action.RESTClientGetter.
func (m *kindMapper) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return m.discovery, nil
}

// ToRESTMapper implements action.RESTClientGetter.
func (m *kindMapper) ToRESTMapper() (meta.RESTMapper, error) { return m.mapper, nil }
