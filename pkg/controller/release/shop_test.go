// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
func (binding) Status(shop *Shop) *releasev1alpha1.ReleaseStatus { return &shop.Status.ReleaseStatus }

// Desired implements release.Binding.
func (b binding) Desired(_ context.Context, p *kind.Pass[*Shop]) (release.Desired, error) {
	shop, policy := p.Object, p.Object.Spec.ReleasePolicy
	desired := release.Desired{Policy: policy, AdoptHint: "give the Shop another name"}
	desired.Release = helm.Release{
		Namespace: shop.Namespace, Name: shop.Name, Chart: b.chart, Owner: metav1.NewControllerRef(shop, shopKind),
		Timeout: release.Timeout(policy), MaxHistory: release.MaxHistory(policy), Ignore: release.IgnoreRules(policy),
	}
	if shop.Spec.Size == 0 {
		// The deployed release stays as it is.
		desired.Blockers = []release.Blocker{{Reason: releasev1alpha1.ReasonValuesInvalid, Message: "spec.size: must not be 0", Stalled: true}}
		return desired, nil
	}
	desired.Release.Values, desired.Known = map[string]any{"size": shop.Spec.Size}, true
	return desired, nil
}

// newLoop returns the controller of Shops.
func newLoop(client func(namespace string) controller.Patcher[*Shop], engine release.Engine, chart *chart.Chart, deps kind.Deps) (*kind.Loop[*Shop, ShopStatus], error) {
	return release.NewLoop(kind.Definition[*Shop, ShopStatus]{
		Name: "shop", GroupVersionKind: shopKind, FieldManager: "demoapp-controller",
		Client:     client,
		Status:     func(shop *Shop) *ShopStatus { return &shop.Status },
		Conditions: func(s *ShopStatus) *[]metav1.Condition { return &s.Conditions },
		Finalizer:  "shop.example.com/finalizer",
	}, deps, engine, binding{chart}, release.Options{})
}
