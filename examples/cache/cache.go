// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

var cacheKind = schema.GroupVersionKind{Group: "cache.example.com", Version: "v1", Kind: "Cache"}

// password is the field that names the key of the password.
const password = "spec.passwordFrom"

// options are what the kind chooses of a release kind.
func options(chart *chart.Chart) release.Options[*Cache] {
	return release.Options[*Cache]{
		Rollout: release.Rollout{Chart: chart},
		WaitFor: func(c *Cache) []release.Dependency { return release.DependenciesOf(c.Namespace, c.Spec.WaitFor) },
		Sources: release.Sources[*Cache]{Keys: func(c *Cache) []release.SecretKey {
			return []release.SecretKey{{Field: password, From: &c.Spec.PasswordFrom, MinLength: 8}}
		}},
	}
}

// binding says what the release of a Cache is made of.
type binding struct{ chart *chart.Chart }

// Status implements release.Binding.
func (binding) Status(s *CacheStatus) *releasev1alpha1.ReleaseStatus { return &s.ReleaseStatus }

// Release implements release.Binding.
func (b binding) Release(c *Cache) (helm.Release, releasev1alpha1.ReleasePolicy) {
	return release.For(c, cacheKind, b.chart, c.Spec.ReleasePolicy), c.Spec.ReleasePolicy
}

// Desired implements release.Binding.
func (binding) Desired(_ context.Context, p *kind.Pass[*Cache], desired release.Desired) (release.Desired, error) {
	c := p.Object
	desired.Known = true
	desired.Release.Values = map[string]any{
		"size": c.Spec.Size, "version": c.Spec.Version, "password": desired.Keys[password],
	}
	desired.Summarize = func(outcome release.Outcome) {
		if outcome.Observed {
			c.Status.Endpoint = fmt.Sprintf("%s.%s.svc:6379", c.Name, c.Namespace)
		}
	}
	return desired, nil
}
