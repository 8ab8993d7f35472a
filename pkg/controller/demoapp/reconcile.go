// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/finalizer"
	"github.com/example/demoapp-controller/pkg/controller/redact"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/controller/status"
	"github.com/example/demoapp-controller/pkg/helm"
)

// pass is one look at one app: what was found, and the copy that the steps
// write their findings into.
type pass struct {
	observed *v1alpha1.DemoApp
	app      *v1alpha1.DemoApp
	why      controller.Reason
	now      time.Time

	// blockers are why nothing new may be rolled out now.
	blockers []blocker
	// apiKey is the key to deploy with; it is not known while a blocker says so.
	apiKey string
	// values are those that valuesFrom and values bring; valuesUnknown says that a
	// blocker keeps them from being known.
	values        map[string]any
	valuesUnknown bool
	// secrets are the texts of values from Secrets; secretsUnknown says that those of a
	// Secret cannot be told.
	secrets        []string
	secretsUnknown bool
	// redaction is made of the secrets when a message first needs it.
	redaction *redact.Redactor
	// exposure is what of spec.ingress the cluster supports.
	exposure exposure
	// dependencyBecameReady says that this is the first pass after a wait.
	dependencyBecameReady bool
	plan                  release.Plan
	// wanted is the release as the app asks for it, and inputs what identifies
	// it; unset while the key or the values are not known.
	wanted *helm.Release
	inputs string
	// inputsVersion stands for the inputs in the status, which must not tell what they
	// hold; unset with them.
	inputsVersion string
	// judged says that the deployed revision is the newest one, so that its health
	// counts, and unhealthy that it did not become healthy in time.
	judged    bool
	unhealthy string
	// requested says that a user asked for this pass, and forceAt is the value by
	// which one asked for an upgrade; empty when nobody did.
	requested bool
	forceAt   string
	// next is when to look again.
	next time.Duration
}

// blocker is a reason why a change has to wait.
type blocker struct {
	reason, message string
	// stalled says that a person must act.
	stalled bool
}

func (p *pass) key() cache.ObjectName {
	return cache.ObjectName{Namespace: p.app.Namespace, Name: p.app.Name}
}

func (p *pass) conditions() status.Editor {
	return status.For(&p.app.Status.Conditions, p.app.Generation, p.now)
}

// redactor takes what no message may show out of messages. It is built once, when all
// that the pass reads from Secrets has been read.
func (p *pass) redactor() *redact.Redactor {
	switch {
	case p.redaction != nil:
	case p.secretsUnknown:
		p.redaction = redact.Withholding("a Secret of valuesFrom cannot be used")
	default:
		p.redaction = redact.New(append([]string{p.app.Spec.APIKey, p.apiKey}, p.secrets...))
	}
	return p.redaction
}

// redact returns a text that another component wrote as it may be shown.
func (p *pass) redact(text string) string {
	if text == "" {
		return ""
	}
	return p.redactor().Text(text)
}

// redactError returns an error with the text as it may be shown and logged.
func (p *pass) redactError(err error) error {
	if err == nil {
		return nil
	}
	return p.redactor().Error(err)
}

// Reconcile brings one app's release to what its spec says.
func (c *Controller) Reconcile(ctx context.Context, key cache.ObjectName, why controller.Reason) (controller.Result, error) {
	ctx = helm.WithWait(ctx, func() (func(), error) { return controller.ReleaseWorker(ctx) })
	cached, _ := c.cached.Get(key)
	app := c.latest.Newest(key, cached)
	if app == nil {
		c.forget(key, cached)
		return controller.Result{}, nil
	}
	if app.DeletionTimestamp != nil {
		return controller.Result{}, c.finalize(ctx, app)
	}
	known := app
	app, err := finalizer.Ensure(ctx, c.apps.DemoApps(key.Namespace), known, v1alpha1.Finalizer)
	if err != nil {
		return controller.Result{}, redact.Error([]string{known.Spec.APIKey}, err)
	}
	if app != known {
		c.latest.Wrote(app)
	}

	p := &pass{observed: app, app: app.DeepCopy(), why: why, now: c.clock.Now(), next: controller.Jitter(c.resync)}
	c.unwritten.resume(p)
	defer c.settleRollout(p) // At the end: whose turn is next can be seen from the statuses.
	stepErr := c.steps(ctx, p)
	if controller.IsPending(stepErr) {
		return controller.Result{}, stepErr // Nothing was looked at yet, and there is nothing to say.
	}
	p.summarizeExposure()
	p.answerRequest(stepErr)
	if stepErr == nil {
		if wait := c.unwritten.hold(p, c.clock.Now()); wait > 0 {
			c.queue.EnqueueAfter(key, wait, controller.HealthChange)
			return controller.Result{RequeueAfter: p.next}, nil
		}
	}
	commitErr := c.commit(ctx, p)
	if commitErr == nil {
		c.releaseClaims(key)
	}
	return controller.Result{RequeueAfter: p.next}, p.redactError(errors.Join(stepErr, commitErr))
}

// steps gather, decide, act and report, in this order.
func (c *Controller) steps(ctx context.Context, p *pass) error {
	p.conditions().Set(releasev1alpha1.ConditionInitialized, "True", releasev1alpha1.ReasonChartLoaded,
		fmt.Sprintf("Bound to chart %s %s", c.chart.Name(), c.chart.Version()))
	c.observeRequest(p)
	if err := c.observeAPIKey(ctx, p); err != nil {
		return c.reportFailure(ctx, p, err)
	}
	if err := c.observeValues(ctx, p); err != nil {
		return c.reportFailure(ctx, p, err)
	}
	if err := c.observeExposure(p); err != nil {
		return c.reportFailure(ctx, p, err)
	}
	c.observeDependency(p)
	if err := c.observeRelease(ctx, p); err != nil {
		return c.reportFailure(ctx, p, err)
	}
	p.summarizeExposure()
	c.awaitHealth(p)
	c.remediate(p)
	c.passGates(ctx, p)
	if err := c.applyDriftPolicy(ctx, p); err != nil {
		return c.reportFailure(ctx, p, err)
	}
	p.suspend()
	if c.restsRefused(ctx, p) {
		return nil
	}
	if err := c.announceDrift(ctx, p); err != nil {
		return err
	}
	if err := c.countFailure(ctx, p); err != nil {
		return err
	}
	if err := c.markHealth(ctx, p); err != nil {
		err = p.redactError(err)
		p.conditions().MarkReconciling(releasev1alpha1.ReasonHealthTimeout, err.Error())
		return err
	}
	if err := c.ensureRelease(ctx, p); err != nil {
		return c.reportFailure(ctx, p, err)
	}
	summarize(p)
	return nil
}

// commit writes the status when the pass changed it, and emits what the change
// means as events.
func (c *Controller) commit(ctx context.Context, p *pass) error {
	written, wrote, err := status.Commit(ctx, p.observed.Status, p.app.Status, func(ctx context.Context) (*v1alpha1.DemoApp, error) {
		return applyStatus(ctx, c.apps.DemoApps(p.app.Namespace), p.app)
	})
	if err != nil {
		return err
	}
	c.unwritten.forget(p.key())
	if !wrote {
		return nil
	}
	c.latest.Wrote(written)
	c.emitTransitions(p.observed, p.app)
	p.observed = written
	return nil
}

// forget lets go of everything that is kept for an app that is gone. As long as
// the cache still holds the app, that it is gone has to be remembered.
func (c *Controller) forget(key cache.ObjectName, cached *v1alpha1.DemoApp) {
	if cached == nil {
		c.latest.Forget(key)
	}
	c.unwritten.forget(key)
	c.releaseClaims(key)
	c.refusals.forget(key)
	c.inputVersions.forget(key)
	c.explanations.forget(key)
	c.sources.use(key, nil)
	c.ignored.forget(key)
	c.rollouts.Set(key, rollout.Settled)
	c.engine.Forget(key)
}

// wanted is the release that the app asks for; nil while its key or its values are not
// known.
func (c *Controller) wanted(p *pass) *helm.Release {
	if p.apiKey == "" || p.valuesUnknown {
		return nil
	}
	desired := c.releaseOf(p.app)
	desired.Values = merged(p.values, desiredValues(p.app.Spec, p.apiKey, p.exposure))
	desired.Adopt = adopts(p.app)
	return &desired
}

// releaseOf is the app's release, without its values.
func (c *Controller) releaseOf(app *v1alpha1.DemoApp) helm.Release {
	owner := ownerReference(app)
	return helm.Release{
		Namespace:  app.Namespace,
		Name:       app.Name,
		Chart:      c.chart,
		Owner:      &owner,
		Scope:      helm.ScopeNamespace,
		Timeout:    timeoutOf(app.Spec),
		MaxHistory: maxHistoryOf(app.Spec),
		Ignore:     ignoreRules(app.Spec),
	}
}

// adopts reports whether the app asks for a release that others made.
func adopts(app *v1alpha1.DemoApp) bool {
	adopt, err := strconv.ParseBool(app.Annotations[releasev1alpha1.AnnotationAdoptRelease])
	return err == nil && adopt
}

// applyStatus writes the whole status of an app.
func applyStatus(ctx context.Context, client status.Patcher[*v1alpha1.DemoApp], app *v1alpha1.DemoApp) (*v1alpha1.DemoApp, error) {
	return status.Apply(ctx, client, status.Target{
		GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("DemoApp"), Object: app, FieldManager: fieldManager,
	}, app.Status)
}
