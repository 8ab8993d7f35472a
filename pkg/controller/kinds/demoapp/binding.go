// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/pkg/redact"
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

// Desired implements [release.Binding]. It reads the API key, the values, the
// capabilities that spec.ingress needs, and the dependency. The reservations of the app end once its
// status is written.
func (b binding) Desired(ctx context.Context, p *pass, desired release.Desired) (release.Desired, error) {
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
	b.sources.Use(p.Key(), sourcesOf(app))
	apiKey, missing, err := b.observeAPIKey(ctx, app)
	if err != nil {
		return desired, err
	}
	desired.Blockers = append(desired.Blockers, missing...)
	collected, err := b.sources.Collect(ctx, p.Key(), app.Spec.ValuesFrom, app.Spec.Values, b.valueNames)
	desired.Redactor = redactorOf(app, apiKey, collected)
	if err != nil {
		return desired, err
	}
	for _, problem := range collected.Problems {
		desired.Blockers = append(desired.Blockers, release.Blocker{Reason: problem.Reason, Message: problem.Message, Stalled: problem.Stalled})
	}
	if found, err = b.observeExposure(p); err != nil {
		return desired, err
	}
	ready, blockers := b.observeDependency(p)
	desired.DependencyBecameReady, desired.Blockers = ready, append(desired.Blockers, blockers...)
	if apiKey != "" && len(collected.Problems) == 0 {
		desired.Known = true
		desired.Release.Values = values.Merge(collected.Values, desiredValues(app.Spec, b.images, apiKey, found))
		desired.Variants = variants(app.Spec, desired.Release)
	}
	desired.InputVersion, desired.Sources = b.inputVersion(app, found), b.sourcesVersion(app)
	desired.Transient = found.awaitsKind
	desired.Gates = []release.Gate{b.validate(app), holdUnknownExposure(found, app.Spec.Ingress)}
	return desired, nil
}

// redactorOf returns a redactor for the app's key and for its values from Secrets.
func redactorOf(app *v1alpha1.DemoApp, apiKey string, collected values.Collected) *redact.Redactor {
	if collected.SecretsUnknown {
		return redact.Withholding("a Secret of valuesFrom cannot be used")
	}
	return redact.New(append([]string{app.Spec.APIKey, apiKey}, collected.Secrets...))
}

// inputVersion identifies the inputs of the release outside the spec: the chart, the capabilities
// of the cluster, the image in place of the default, and the ConfigMaps and Secrets. It is not a
// digest of the inputs, because the status must not hold one: a short secret can be guessed from
// its digest.
func (c *Controller) inputVersion(app *v1alpha1.DemoApp, found exposure) string {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %t %t\n", c.chart.Digest(), found.ingress, found.httpRoute)
	if image := imageOf(app.Spec, c.images); image != imageOf(app.Spec, images.Table{}) {
		fmt.Fprintf(hash, "%q\n", image)
	}
	fmt.Fprint(hash, c.sourcesVersion(app))
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// sourcesVersion identifies the content of the ConfigMaps and Secrets that the app reads.
func (c *Controller) sourcesVersion(app *v1alpha1.DemoApp) string {
	var version strings.Builder
	for _, key := range sourcesOf(app) {
		fmt.Fprintf(&version, "%q %q\n", key.Object, c.sources.Version(key.Object))
	}
	return version.String()
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
