// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"sync"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/example/demoapp-controller/pkg/served"
)

// kindMapper adds to the cached discovery the capabilities that templates see. All operations share
// it.
type kindMapper struct {
	*served.Cache

	mu sync.Mutex
	// capabilities are those of a generation of the discovery.
	capabilities *common.Capabilities
	generation   int
}

// namespaced reports whether the kind is namespaced.
func (m *kindMapper) namespaced(kind schema.GroupVersionKind) (bool, error) {
	resource, err := m.Resource(kind)
	return resource.Namespaced, err
}

// current returns a copy of the capabilities that charts see.
func (m *kindMapper) current() (*common.Capabilities, error) {
	generation := m.Generation()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.capabilities == nil || m.generation != generation {
		client, err := m.ToDiscoveryClient()
		if err != nil {
			return nil, err
		}
		version, err := client.ServerVersion()
		if err != nil {
			return nil, fmt.Errorf("version of the API server: %w", err)
		}
		apis, err := action.GetVersionSet(client)
		if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
			return nil, fmt.Errorf("kinds of the API server: %w", err)
		}
		m.capabilities, m.generation = &common.Capabilities{
			APIVersions: apis,
			KubeVersion: common.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
			HelmVersion: common.DefaultCapabilities.HelmVersion,
		}, generation
	}
	return m.capabilities.Copy(), nil
}
