// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	watchesv1alpha1 "github.com/example/demoapp-controller/pkg/apis/watches/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/custom"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/message"
	"github.com/example/demoapp-controller/pkg/ssa"
)

const (
	// minPeriod is the shortest period of the annotation reconcile-period. Authors of custom
	// resources choose the period, and must not be able to keep the operator busy.
	minPeriod = time.Second
	// maxStatusManifest bounds the manifest in a status, in bytes. The API server stores
	// objects of about 1.5 MiB.
	maxStatusManifest = 512 << 10
	// maxInvalid bounds the message about an invalid object release, in bytes.
	maxInvalid = 1024
)

// binding connects a custom resource to the lifecycle of its release, for one pass.
type binding struct {
	*kindController

	content *unstructured.Unstructured
	// pausedBy names the setting that pauses the custom resource, or "".
	pausedBy string
	// frozen says that an annotation or the program pauses the custom resource, or its Namespace.
	frozen bool
	values map[string]any
	// overridden are the paths of the values that the kind overrides.
	overridden []string
	release    helm.Release
	outcome    release.Outcome
	// changed says that the release changed in this pass.
	changed bool
}

// Status implements release.Binding.
func (b *binding) Status(s *custom.Status) *releasev1alpha1.ReleaseStatus { return &s.ReleaseStatus }

// Release implements release.Binding. Its name may be another one, see releaseOf.
func (b *binding) Release(r *custom.Resource) (helm.Release, releasev1alpha1.ReleasePolicy) {
	policy := r.Release.Over(b.kind.Policy)
	return release.For(r, b.kind.GroupVersionKind, b.kind.Chart, policy), policy
}

// Desired implements release.Binding.
func (b *binding) Desired(ctx context.Context, p *pass, desired release.Desired) (release.Desired, error) {
	var pauseErr, err error
	b.pausedBy, pauseErr = b.observePaused(ctx, p, b.content)
	desired.Policy = b.policy(p.Object, b.pausedBy != "")
	desired.SuspendedBy, desired.SuspendReason = b.pausedBy, apimeta.ReasonSuspendedByAnnotation
	if b.pausedBy == "" && desired.Policy.Suspend {
		desired.SuspendedBy, desired.SuspendReason = "release.suspend", releasev1alpha1.ReasonSuspendedBySpec
	}
	desired.DeployedIsAnyRevision, desired.Transient = true, b.transient
	desired.AdoptHint += fmt.Sprintf(" and the label %s: \"true\" on the Secret of the newest revision", record.AdoptLabel)
	desired.Summarize = func(outcome release.Outcome) { b.outcome = outcome }
	desired.Changed = func(change release.Change) {
		b.changed = true
		b.reportOverrides(ctx, p, change)
	}
	if b.pausedBy == pauseHandler {
		desired.SuspendReason = apimeta.ReasonSuspendedByHandler
	}
	b.frozen = b.pausedBy != "" || p.Pause != (kind.Pause{})
	from := desired.Release.Values
	b.release, err = b.releaseOf(ctx, p, b.content)
	desired.Release = b.release
	switch name := (*nameError)(nil); {
	case p.Object.Excess() != nil:
		desired.Blockers = []release.Blocker{{Reason: releasev1alpha1.ReasonValuesInvalid, Message: p.Object.Excess().Error(), Stalled: true}}
		return desired, nil //nolint:nilerr // The blocker says what is wrong.
	case b.refuseRelease(p.Object) != nil:
		message := message.Line(b.refuseRelease(p.Object).Error(), maxInvalid)
		desired.Blockers = []release.Blocker{{Reason: releasev1alpha1.ReasonValuesInvalid, Message: message, Stalled: true}}
		return desired, nil //nolint:nilerr // The blocker says what is wrong.
	case pauseErr != nil:
		return desired, &hookError{pauseErr}
	case errors.As(err, &name):
		desired.Blockers = []release.Blocker{{Reason: releasev1alpha1.ReasonValuesInvalid, Message: name.Error(), Stalled: true}}
		return desired, nil
	case err != nil:
		return desired, err
	}
	if b.kind.Waits != "" {
		desired.Blockers = []release.Blocker{{Reason: releasev1alpha1.ReasonValuesInvalid, Message: b.kind.Waits, Stalled: true}}
		return desired, nil
	}
	if b.values, b.overridden, err = b.valuesOf(ctx, b.content, from); err != nil && !controller.IsTerminal(err) {
		return desired, &valuesError{err}
	}
	if err != nil {
		desired.Blockers = []release.Blocker{{Reason: releasev1alpha1.ReasonValuesInvalid, Message: b.redactor.Error(err).Error(), Stalled: true}}
		return desired, nil
	}
	if err := b.runPreHooks(ctx); err != nil {
		return desired, &hookError{err}
	}
	desired.Release.Values, desired.Known = b.values, true
	if b.kind.readsLabels {
		desired.Sources += labels.FormatLabels(p.Object.GetLabels())
	}
	return desired, nil
}

// nameError says that the name of the release cannot be determined.
type nameError struct{ error }

func (e *nameError) Unwrap() error { return e.error }

// valuesError says that the values cannot be determined now. It is retried.
type valuesError struct{ error }

func (e *valuesError) Unwrap() error { return e.error }

// transient returns the reason of an error that is no failure of the release, so that the
// number of its retries is not limited. Otherwise, it returns an empty string.
func (b *binding) transient(err error) string {
	if hook := (*hookError)(nil); errors.As(err, &hook) {
		return watchesv1alpha1.ReasonReconcileError
	}
	if values := (*valuesError)(nil); errors.As(err, &values) {
		return releasev1alpha1.ReasonValuesInvalid
	}
	if ssa.IsImpersonationRefused(err, b.kind.ServiceAccountName) {
		return watchesv1alpha1.ReasonErrorGettingClient
	}
	return ""
}

func (b *binding) runPreHooks(ctx context.Context) error {
	if b.frozen {
		return nil
	}
	for _, hook := range b.kind.PreHooks {
		if err := hook(ctx, b.content.DeepCopy(), b.values, klog.FromContext(ctx)); err != nil {
			return fmt.Errorf("pre-reconcile hook of %s: %w", b.kind.Name(), err)
		}
	}
	return nil
}

// hookError is the error of a hook or of the pause handler of the program.
type hookError struct{ error }

func (e *hookError) Unwrap() error { return e.error }

// valuesOf returns the values of a custom resource over the values of its valuesFrom, with the overrides of
// the kind, and the paths of overridden values.
func (c *kindController) valuesOf(ctx context.Context, content *unstructured.Unstructured, from map[string]any) (set map[string]any, overridden []string, err error) {
	own, err := c.kind.Translator(ctx, content)
	if err != nil {
		return nil, nil, err
	}
	if len(from) > 0 {
		own = values.Merge(from, own)
	}
	set, overridden, err = c.kind.override(own)
	return set, overridden, controller.Terminal(err)
}

// overriddenTexts returns the texts of overrides, as they are written and as the chart gets
// them. They may come from the operator's environment, so they count as secret.
func overriddenTexts(k ReleaseKind) []string {
	texts := slices.Collect(maps.Values(k.Overrides))
	set, _, err := k.override(nil)
	if err != nil {
		return texts // Each pass reports the error.
	}
	var collect func(value any)
	collect = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, item := range value {
				collect(item)
			}
		case []any:
			for _, item := range value {
				collect(item)
			}
		case string:
			texts = append(texts, value)
		}
	}
	collect(set)
	return texts
}

// specValues returns the spec of an object.
func specValues(_ context.Context, object *unstructured.Unstructured) (map[string]any, error) {
	spec, ok := object.Object["spec"].(map[string]any)
	if !ok && object.Object["spec"] != nil {
		return nil, controller.Terminal(errors.New("spec: must be an object, because it holds the values of the chart"))
	}
	return spec, nil
}

// policy returns the release policy of a custom resource. A failed upgrade is rolled back
// unless the kind says otherwise. Without a revision to roll back to, the retries are not
// limited unless the kind limits them: the cause may be a permission that is granted later.
func (c *kindController) policy(r *custom.Resource, paused bool) releasev1alpha1.ReleasePolicy {
	policy := r.Release.Over(*c.kind.Policy.DeepCopy())
	policy.Suspend = paused || r.Release != nil && r.Release.Policy.Suspend
	if policy.Remediation == nil && r.Status.LastGoodRevision > 0 {
		policy.Remediation = &releasev1alpha1.Remediation{Strategy: releasev1alpha1.RemediationRollback}
	}
	return policy
}

// releaseOf returns the release of a custom resource, without values.
func (c *kindController) releaseOf(ctx context.Context, p *pass, content *unstructured.Unstructured) (helm.Release, error) {
	r := p.Object
	annotations := r.GetAnnotations()
	desired := release.For(r, c.kind.GroupVersionKind, c.kind.Chart, r.Release.Over(c.kind.Policy))
	desired.Scope, desired.Adopt = c.kind.Scope, false
	desired.Takeover, desired.TakeoverUnmarked = true, c.kind.Takeover
	desired.ServiceAccount, desired.FieldValidation = c.kind.ServiceAccountName, c.kind.FieldValidation
	desired.Install = helm.ActionOptions{
		DisableHooks: isTrue(r, watchesv1alpha1.AnnotationInstallDisableHooks), Description: annotations[watchesv1alpha1.AnnotationInstallDescription],
	}
	desired.Upgrade = helm.ActionOptions{
		DisableHooks: isTrue(r, watchesv1alpha1.AnnotationUpgradeDisableHooks), Description: annotations[watchesv1alpha1.AnnotationUpgradeDescription],
	}
	desired.Uninstall = helm.ActionOptions{
		DisableHooks: isTrue(r, watchesv1alpha1.AnnotationUninstallDisableHooks), Description: annotations[watchesv1alpha1.AnnotationUninstallDescription],
	}
	desired.ForceReplace, desired.RollbackForceReplace = isTrue(r, watchesv1alpha1.AnnotationUpgradeForce), !isFalse(r, watchesv1alpha1.AnnotationRollbackForce)
	desired.AwaitRemoval = isTrue(r, watchesv1alpha1.AnnotationUninstallWait)
	if c.kind.ReleaseNamespace != "" {
		desired.Namespace = c.kind.ReleaseNamespace
	}
	for _, annotation := range c.kind.Annotations {
		if value, ok := annotations[annotation.Name]; ok {
			if err := annotation.Apply(value, &desired); err != nil {
				c.ignore(ctx, p, "InvalidAnnotation", annotation.Name, err.Error())
			}
		}
	}
	var err error
	if desired.Name, err = c.releaseName(ctx, r, content, desired.Namespace); err == nil && isTrue(r, releasev1alpha1.AnnotationAdoptRelease) {
		desired.Adopt, err = c.mayAdopt(ctx, desired.Key())
	}
	return desired, err
}

// mayAdopt reports whether custom resources may adopt a release that another client made. The
// annotation of the author alone is not enough, because the author may have no permission to
// change the release.
func (c *kindController) mayAdopt(ctx context.Context, key cache.ObjectName) (bool, error) {
	if c.kind.Takeover {
		return true, nil
	}
	snapshot, err := c.observe(ctx, key)
	return snapshot.Record != nil && snapshot.Record.Adoptable, err
}

// observe returns the state of the release without its objects.
func (c *kindController) observe(ctx context.Context, key cache.ObjectName) (helm.Snapshot, error) {
	snapshot, err := c.deps.Engine.Observe(ctx, key, helm.Baseline{})
	if err != nil {
		return snapshot, fmt.Errorf("%w %s: %w", release.ErrNotObserved, key.Name, err)
	}
	return snapshot, nil
}

// releaseName returns the name of the release that the custom resource has: the first of its
// possible names under which a release of the custom resource exists, or the configured name.
func (c *kindController) releaseName(
	ctx context.Context, r *custom.Resource, content *unstructured.Unstructured, namespace string,
) (string, error) {
	names, nameErr := c.releaseNames(r, content)
	releases := make([]cache.ObjectName, 0, len(names))
	for _, name := range names {
		releases = append(releases, cache.NewObjectName(namespace, name))
	}
	c.Own(cache.MetaObjectToName(r), releases...)
	if deployed := r.Status.DeployedRelease; nameErr == nil && deployed != nil && deployed.Name == names[0] {
		return deployed.Name, nil
	}
	legacy := helm.LegacyReleaseName(r.GetName(), r.GetUID())
	for _, name := range names {
		snapshot, err := c.observe(ctx, cache.NewObjectName(namespace, name))
		if err != nil {
			return name, err
		}
		if snapshot.Record == nil {
			continue
		}
		if owner := snapshot.Record.OwnerUID(); owner == r.GetUID() || owner == "" && name == legacy {
			return name, nil
		}
	}
	if nameErr != nil {
		return r.GetName(), &nameError{nameErr}
	}
	return names[0], nil
}

// releaseNames returns the possible names of the release: the configured name, the name in
// the status, because the configured name may have changed since the install, and the name
// that operator-sdk before 1.0 gave. With an error, it returns all but the configured name.
func (c *kindController) releaseNames(r *custom.Resource, content *unstructured.Unstructured) (names []string, err error) {
	name, err := c.kind.ReleaseName(content)
	if err == nil {
		names = append(names, name)
	}
	if deployed := r.Status.DeployedRelease; deployed != nil && deployed.Name != "" {
		names = append(names, deployed.Name)
	}
	if legacy := helm.LegacyReleaseName(r.GetName(), r.GetUID()); legacy != "" {
		names = append(names, legacy)
	}
	return names, err
}

// observePeriod applies the annotation reconcile-period.
func (c *kindController) observePeriod(ctx context.Context, p *pass) {
	value, ok := p.Object.GetAnnotations()[watchesv1alpha1.AnnotationReconcilePeriod]
	if !ok {
		return
	}
	period, err := time.ParseDuration(value)
	if err == nil && period >= minPeriod {
		p.Next = controller.Jitter(period)
		return
	}
	c.ignore(ctx, p, "InvalidReconcilePeriod", watchesv1alpha1.AnnotationReconcilePeriod,
		fmt.Sprintf("%q is not a duration of at least %v, for example 5m", value, minPeriod))
}

// booleans are the annotations whose value is a boolean.
var booleans = []string{
	watchesv1alpha1.AnnotationInstallDisableHooks, watchesv1alpha1.AnnotationUpgradeDisableHooks, watchesv1alpha1.AnnotationUninstallDisableHooks,
	watchesv1alpha1.AnnotationUpgradeForce, watchesv1alpha1.AnnotationRollbackForce, watchesv1alpha1.AnnotationUninstallWait,
}

// observeBooleans reports the annotations that should be a boolean and are not.
func (c *kindController) observeBooleans(ctx context.Context, p *pass) {
	for _, annotation := range booleans {
		value, ok := p.Object.GetAnnotations()[annotation]
		if _, err := strconv.ParseBool(value); ok && err != nil {
			c.ignore(ctx, p, "InvalidAnnotation", annotation, fmt.Sprintf("%q is neither true nor false", value))
		}
	}
}

// ignore reports an invalid annotation once for each change of the custom resource.
func (c *kindController) ignore(ctx context.Context, p *pass, reason, annotation, why string) {
	if p.Reason.Has(controller.SpecChange) {
		event.Emit(ctx, c.deps.Recorder, p.Object, event.Warning(reason, "Reconcile", "Annotation "+annotation+" is ignored: "+why))
	}
}

// reportOverrides names the overridden values in an event, without the values.
func (b *binding) reportOverrides(ctx context.Context, p *pass, change release.Change) {
	if len(b.overridden) > 0 && change.Desired {
		event.Emit(ctx, b.deps.Recorder, p.Object, event.Normal("ValuesOverridden", "Reconcile",
			"The operator overrides the values "+strings.Join(b.overridden, ", ")))
	}
}

func isTrue(r *custom.Resource, annotation string) bool {
	return parseBool(r.GetAnnotations()[annotation])
}

// isFalse reports whether the value of an annotation is a false boolean. No value and an
// invalid one are not.
func isFalse(r *custom.Resource, annotation string) bool {
	value, err := strconv.ParseBool(r.GetAnnotations()[annotation])
	return err == nil && !value
}

// parseBool is strconv.ParseBool, with false for an invalid value.
func parseBool(value string) bool {
	parsed, err := strconv.ParseBool(value)
	return err == nil && parsed
}
