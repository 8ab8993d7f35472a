// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

var shopKind = schema.GroupVersionKind{Group: "shop.example.com", Version: "v1", Kind: "Shop"}

// binding connects Shops to the lifecycle of their releases.
type binding struct{ chart *chart.Chart }

// Status implements release.Binding.
func (binding) Status(s *ShopStatus) *releasev1alpha1.ReleaseStatus { return &s.ReleaseStatus }

// Release implements release.Binding.
func (b binding) Release(shop *Shop) (helm.Release, releasev1alpha1.ReleasePolicy) {
	return release.For(shop, shopKind, b.chart, shop.Spec.ReleasePolicy), shop.Spec.ReleasePolicy
}

// Desired implements release.Binding.
func (b binding) Desired(_ context.Context, p *kind.Pass[*Shop], desired release.Desired) (release.Desired, error) {
	shop := p.Object
	if shop.Spec.Size == 0 {
		// The deployed release stays as it is.
		desired.Blockers = []release.Blocker{{Reason: releasev1alpha1.ReasonValuesInvalid, Message: "spec.size: must not be 0", Stalled: true}}
		return desired, nil
	}
	desired.Release.Values, desired.Known = map[string]any{"size": shop.Spec.Size}, true
	return desired, nil
}

// newLoop returns the controller of Shops.
func newLoop(client func(namespace string) controller.Patcher[*Shop], engine release.Engine, chart *chart.Chart, deps kind.Deps) (*release.Loop[*Shop, ShopStatus], error) {
	return release.NewLoop(kind.Definition[*Shop, ShopStatus]{
		Name: "shop", GroupVersionKind: shopKind, FieldManager: "demoapp-controller",
		Client:    client,
		Status:    func(shop *Shop) *ShopStatus { return &shop.Status },
		Finalizer: "shop.example.com/finalizer",
	}, deps, engine, binding{chart}, release.Options[*Shop]{})
}
