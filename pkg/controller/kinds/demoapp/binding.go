// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/images"
)

type pass = kind.Pass[*v1alpha1.DemoApp]

// binding implements [release.Binding] for DemoApps.
type binding struct{ *Controller }

// Status implements [release.Binding].
func (binding) Status(s *v1alpha1.DemoAppStatus) *releasev1alpha1.ReleaseStatus {
	return &s.ReleaseStatus
}

// Release implements [release.Binding].
func (b binding) Release(app *v1alpha1.DemoApp) (helm.Release, releasev1alpha1.ReleasePolicy) {
	desired := release.For(app, demoAppKind, b.chart, app.Spec.ReleasePolicy)
	desired.KeepShutdown = true // No field of a DemoApp decides how pods end.
	return desired, app.Spec.ReleasePolicy
}

// Desired implements [release.Binding]. It reads the capabilities that spec.ingress needs. The reservations of the app end once its
// status is written.
func (b binding) Desired(_ context.Context, p *pass, desired release.Desired) (release.Desired, error) {
	p.AfterCommit(func(end kind.StatusEnd) {
		if end == kind.StatusCommitted {
			b.releaseClaims(p.Key())
		}
	})
	app := p.Object
	desired.ChangeHeld = meta.IsStatusConditionFalse(app.Status.Conditions, v1alpha1.ConditionValidated)
	var found exposure
	desired.Changed = func(change release.Change) { recordClaims(app, change) }
	desired.Summarize = func(outcome release.Outcome) { summarize(p, found, outcome) }
	found, err := b.observeExposure(p)
	if err != nil {
		return desired, err
	}
	if apiKey := cmp.Or(desired.Keys[apiKeyFrom], app.Spec.APIKey); apiKey != "" {
		desired.Known = true
		desired.Release.Values = values.Merge(desired.Release.Values, desiredValues(app.Spec, b.images, apiKey, found))
		desired.Variants = variants(app.Spec, desired.Release)
	}
	desired.InputVersion = b.inputVersion(app, found, desired.Sources)
	desired.Transient = found.awaitsKind
	desired.Gates = []release.Gate{b.validate(app), holdUnknownExposure(found, app.Spec.Ingress)}
	return desired, nil
}

// inputVersion identifies the inputs of the release outside the spec: the chart, the capabilities
// of the cluster, the image in place of the default, and the ConfigMaps and Secrets. It is not a
// digest of the inputs, because the status must not hold one: a short secret can be guessed from
// its digest.
func (c *Controller) inputVersion(app *v1alpha1.DemoApp, found exposure, sources string) string {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %t %t\n", c.chart.Digest(), found.ingress, found.httpRoute)
	if image := imageOf(app.Spec, c.images); image != imageOf(app.Spec, images.Table{}) {
		fmt.Fprintf(hash, "%q\n", image)
	}
	fmt.Fprint(hash, sources)
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// summarize writes the app's own status.
func summarize(p *pass, found exposure, outcome release.Outcome) {
	if outcome.Observed {
		p.Object.Status.URL = serviceURL(p.Object)
	}
	summarizeExposure(p, found, outcome)
}

// transitions returns the app's own events for the difference between two versions of an app.
func transitions(before, after *v1alpha1.DemoApp) []event.Event {
	if e, ok := exposureTransition(before.Status, after.Status); ok {
		return []event.Event{e}
	}
	return nil
}

// serviceURL is the URL of the app inside the cluster. It omits the cluster domain, which
// the resolver adds.
func serviceURL(app *v1alpha1.DemoApp) string {
	url := fmt.Sprintf("http://%s.%s.svc", app.Name, app.Namespace)
	if port := cmp.Or(app.Spec.Service.Port, defaultPort); port != defaultPort {
		url = fmt.Sprintf("%s:%d", url, port)
	}
	return url
}
