// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"

	"github.com/example/demoapp-controller/pkg/served"
)

// kindMapper adds to the cached discovery the capabilities that templates see. All operations share
// it.
type kindMapper struct {
	*served.Cache

	mu sync.Mutex
	// capabilities are the capabilities of a generation of the discovery, and digest identifies them.
	capabilities *common.Capabilities
	digest       string
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
	if err := m.update(generation); err != nil {
		return nil, err
	}
	return m.capabilities.Copy(), nil
}

// currentDigest identifies the capabilities that charts see.
func (m *kindMapper) currentDigest() (string, error) {
	generation := m.Generation()
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.update(generation)
	return m.digest, err
}

// update renews the capabilities after a discovery. The caller holds the lock.
func (m *kindMapper) update(generation int) error {
	if m.capabilities == nil || m.generation != generation {
		client, err := m.ToDiscoveryClient()
		if err != nil {
			return err
		}
		version, err := client.ServerVersion()
		if err != nil {
			return fmt.Errorf("version of the API server: %w", err)
		}
		_, _, incomplete := client.ServerGroupsAndResources()
		apis, err := action.GetVersionSet(client)
		if err != nil {
			return fmt.Errorf("kinds of the API server: %w", err)
		}
		if silent, ok := discovery.GroupDiscoveryFailedErrorGroups(incomplete); ok {
			apis = m.keep(apis, silent)
		}
		m.capabilities, m.generation = &common.Capabilities{
			APIVersions: apis,
			KubeVersion: common.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
			HelmVersion: common.DefaultCapabilities.HelmVersion,
		}, generation
		sum := sha256.Sum256([]byte(fmt.Sprint(version.GitVersion, slices.Sorted(slices.Values(apis)))))
		m.digest = hex.EncodeToString(sum[:8])
	}
	return nil
}

// keep adds the versions of aggregated APIs that do not answer now, with the kinds that they had. A
// template that finds an API missing would leave objects out, and an upgrade would delete them.
func (m *kindMapper) keep(apis common.VersionSet, silent map[schema.GroupVersion]error) common.VersionSet {
	known := sets.New(apis...)
	for version := range silent {
		known.Insert(version.String())
		if m.capabilities == nil {
			continue
		}
		for _, last := range m.capabilities.APIVersions {
			if strings.HasPrefix(last, version.String()+"/") {
				known.Insert(last)
			}
		}
	}
	return sets.List(known)
}
