// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	watchesv1alpha1 "github.com/example/demoapp-controller/pkg/apis/watches/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/custom"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/redact"
	"github.com/example/demoapp-controller/pkg/served"
)

const (
	// remainingRetry is the maximum interval of the checks for remaining objects of an uninstalled
	// release.
	remainingRetry = 10 * time.Second
)

// pauseHandler names the program's pause function in messages.
const pauseHandler = "the answer of the operator's pause handler"

type pass = kind.Pass[*custom.Resource]

// kindController reconciles the custom resources of one kind.
type kindController struct {
	*release.Loop[*custom.Resource, custom.Status]

	kind      ReleaseKind
	deps      Deps
	informers map[string]cache.SharedIndexInformer
	// changed reports a change of a release.
	changed  func(release cache.ObjectName, change helm.Change)
	redactor *redact.Redactor
	client   *custom.Client
	pruned   custom.Pruned
	// further removes the handlers of further informers.
	further []func() error
}

// newKindController returns a controller of the custom resources in the informers.
func newKindController(k ReleaseKind, resource served.Resource, deps Deps) (*kindController, error) {
	c := &kindController{
		kind: k, deps: deps, redactor: redact.New(overriddenTexts(k)),
	}
	namespaces := deps.Namespaces
	if !resource.Namespaced {
		namespaces = nil
	}
	var err error
	if c.client, err = custom.NewClient(deps.RESTConfig, deps.HTTPClient, k.GroupVersionKind, resource.GroupVersionResource, k.annotations()); err != nil {
		return nil, fmt.Errorf("%s: %w", k.Name(), err)
	}
	if c.informers, err = c.client.Informers(namespaces, k.Selector); err != nil {
		return nil, fmt.Errorf("%s: %w", k.Name(), err)
	}
	for _, informer := range c.informers {
		if err := informer.SetWatchErrorHandlerWithContext(deps.Metrics.WatchErrors(resource.GroupResource().String())); err != nil {
			return nil, fmt.Errorf("%s: %w", k.Name(), err)
		}
	}
	c.Loop, err = release.NewLoop(c.definition(), kind.Deps{
		Informers: c.informers, Recorder: deps.Recorder, Metrics: deps.Metrics, Clock: deps.Clock,
		ResyncPeriod: k.ReconcilePeriod, Workers: k.MaxConcurrentReconciles, Namespaces: deps.NamespaceMetadata, Refuse: deps.Refuse,
		Shards: deps.Shards,
	}, kindEngine{deps.Engine, c}, &binding{kindController: c}, release.Options[*custom.Resource]{
		Rollout: release.Rollout{Chart: k.Chart, Limits: k.Rollout, ReleaseNamespace: k.ReleaseNamespace},
		Sources: c.sources(), WaitFor: waitFor, Dependencies: deps.Dependencies,
		Secrets: func(*custom.Resource) []string { return overriddenTexts(k) },
	})
	if err != nil {
		return nil, err
	}
	self := func(r *custom.Resource) []cache.ObjectName { return []cache.ObjectName{cache.MetaObjectToName(r)} }
	for _, informer := range c.informers {
		synced, err := controller.AddHandler("labels of "+k.Name(), informer, controller.MapHandler(c.Queue(), self, labelsChanged))
		if err != nil {
			return nil, err
		}
		c.Await(synced)
	}
	if err := c.watchAdditional(); err != nil {
		return nil, err
	}
	return c, nil
}

// definition returns the definition of the kind for the passes over its custom resources.
func (c *kindController) definition() kind.Definition[*custom.Resource, custom.Status] {
	k := c.kind
	return kind.Definition[*custom.Resource, custom.Status]{
		Name: k.Name(), GroupVersionKind: k.GroupVersionKind, FieldManager: c.deps.FieldManager,
		Client:      func(namespace string) controller.Patcher[*custom.Resource] { return c.client.In(namespace) },
		Status:      func(r *custom.Resource) *custom.Status { return &r.Status },
		Annotations: k.annotations(),
		Steps:       c.steps,
		Finalizer:   watchesv1alpha1.Finalizer, FormerFinalizers: []string{watchesv1alpha1.FormerFinalizer},
		Finalize: c.finalize, LetGo: c.letGo, Orphaned: c.isOrphaned, Finalized: c.reportUninstalled,
		Gates:  []kind.Gate{{Name: "suspend", Condition: watchesv1alpha1.ConditionPaused, Status: metav1.ConditionTrue, NeedsUser: true}},
		Forget: c.pruned.Forget,
	}
}

// sources are the ConfigMaps and Secrets that the object release names.
func (c *kindController) sources() release.Sources[*custom.Resource] {
	if c.deps.Sources == nil {
		return release.Sources[*custom.Resource]{}
	}
	return release.Sources[*custom.Resource]{
		Reader: c.deps.Sources,
		ValuesFrom: func(r *custom.Resource) ([]releasev1alpha1.ValuesReference, *runtime.RawExtension) {
			if r.Release == nil || r.GetNamespace() == "" {
				return nil, nil
			}
			return r.Release.ValuesFrom, nil
		},
	}
}

// waitFor are the objects that the object release names.
func waitFor(r *custom.Resource) []release.Dependency {
	if r.Release == nil || r.GetNamespace() == "" {
		return nil
	}
	return release.DependenciesOf(r.GetNamespace(), r.Release.WaitFor)
}

// refuseRelease returns what a custom resource cannot have in its object release.
func (c *kindController) refuseRelease(r *custom.Resource) error {
	switch {
	case r.Invalid() != nil:
		return r.Invalid()
	case r.Release == nil:
		return nil
	case r.GetNamespace() == "" && len(r.Release.ValuesFrom)+len(r.Release.WaitFor) > 0:
		return errors.New("release: a cluster-scoped resource cannot have valuesFrom and waitFor, which name objects of its namespace")
	case c.deps.Sources == nil && len(r.Release.ValuesFrom) > 0:
		return errors.New("release.valuesFrom: this operator reads no ConfigMaps and Secrets")
	default:
		return nil
	}
}

// watchAdditional adds the handlers of the kind's additional informers. They stay until unwatch.
func (c *kindController) watchAdditional() error {
	for _, watch := range c.kind.Watches {
		handler := controller.MapHandler(c.Queue(), watch.Keys, controller.Always[metav1.Object](controller.SpecChange))
		registration, err := cache.NewTypedSharedIndexInformer[metav1.Object](watch.Informer).
			AddTypedEventHandler(handler, cache.HandlerOptions{ResyncPeriod: new(time.Duration)})
		if err != nil {
			return errors.Join(fmt.Errorf("%s: add a handler to informer %q: %w", c.kind.Name(), watch.Name, err), c.unwatch())
		}
		c.further = append(c.further, func() error { return watch.Informer.RemoveEventHandler(registration) })
		c.Await(controller.NamedSync{Name: watch.Name, HasSynced: registration.HasSynced})
	}
	return nil
}

// unwatch removes the handlers of the kind's additional informers, which may outlive the kind.
func (c *kindController) unwatch() error {
	var errs []error
	for _, remove := range c.further {
		errs = append(errs, remove())
	}
	return errors.Join(errs...)
}

// haveSynced returns the checks of the kind's own informers.
func (c *kindController) haveSynced() []cache.InformerSynced {
	var checks []cache.InformerSynced
	for _, informer := range c.informers {
		checks = append(checks, informer.HasSynced)
	}
	return checks
}

// end drops the state that outlives the kind: handlers, and the engine's state of the releases.
func (c *kindController) end(ctx context.Context) {
	if err := c.unwatch(); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot remove the handlers of informers", "kind", c.kind.Name())
	}
	var keys []cache.ObjectName
	for _, informer := range c.informers {
		for _, key := range informer.GetStore().ListKeys() {
			if name, err := cache.ParseObjectName(key); err == nil {
				keys = append(keys, name)
			}
		}
	}
	c.End(keys)
}

// labelsChanged starts a pass when the labels of a custom resource change, because names and
// values of releases may depend on them.
func labelsChanged(before, after *custom.Resource) controller.Reason {
	if before != nil && after != nil && !before.SameLabels(after) {
		return controller.SpecChange
	}
	return 0
}

// kindEngine is the engine of the releases of one kind.
type kindEngine struct {
	Engine

	kind *kindController
}

// Subscribe implements [release.Engine]. The manager subscribes to the engine once, because kinds come
// and go.
func (e kindEngine) Subscribe(changed func(release cache.ObjectName, change helm.Change)) {
	e.kind.changed = func(release cache.ObjectName, change helm.Change) {
		if !e.kind.kind.IgnoreDependents || change != helm.ObjectChanged {
			changed(release, change)
		}
	}
}

// steps make one pass over a custom resource.
func (c *kindController) steps(ctx context.Context, p *pass) error {
	c.pruned.Recall(p)
	c.observePeriod(ctx, p)
	c.observeBooleans(ctx, p)
	content, err := p.Object.Content()
	if err != nil {
		return err
	}
	bound := &binding{kindController: c, content: content}
	err = c.Steps(ctx, p, bound)
	if controller.IsPending(err) {
		return err
	}
	if err == nil && bound.outcome.Observed && bound.outcome.Settled && !bound.frozen {
		err = c.runPostHooks(ctx, p, bound)
	}
	if err == nil {
		err = c.writeManifest(ctx, p, bound)
	}
	setUpstream(p.Conditions(), &p.Object.Status.ReleaseStatus, err, c.kind.ServiceAccountName)
	before := p.Observed
	p.AfterCommit(func(end kind.StatusEnd) {
		if end == kind.StatusCommitted && c.pruned.Notice(p) {
			event.Emit(ctx, c.deps.Recorder, p.Object, statusLost(p.Observed != before))
		}
	})
	return err
}

// statusLost returns the event about a status that the API server does not have as it was
// written. written says that the API server accepted the write. Without the subresource, it
// answers as if the custom resource did not exist.
func statusLost(written bool) event.Event {
	if !written {
		return event.Warning("StatusNotWritten", "Reconcile", "The API server does not store the status, so the operator keeps it in memory "+
			"only: enable the status subresource in the CRD (subresources: {status: {}})")
	}
	return event.Warning("StatusPruned", "Reconcile", "The CRD removes fields of the status, so the operator "+
		"keeps them in memory only: set x-kubernetes-preserve-unknown-fields: true on status in the CRD")
}

func (c *kindController) runPostHooks(ctx context.Context, p *pass, bound *binding) error {
	for _, hook := range c.kind.PostHooks {
		logger := klog.FromContext(ctx)
		if err := hook(ctx, bound.content.DeepCopy(), *p.Object.Status.DeployedRelease, bound.values, logger); err != nil {
			err = c.redactor.Error(fmt.Errorf("post-reconcile hook of %s: %w", c.kind.Name(), err))
			p.Conditions().MarkReconciling(watchesv1alpha1.ReasonReconcileError, err.Error())
			return err
		}
	}
	return nil
}

// writeManifest keeps status.deployedRelease.manifest up to date if the kind has it.
func (c *kindController) writeManifest(ctx context.Context, p *pass, bound *binding) error {
	s := &p.Object.Status
	if !c.kind.StatusManifest || s.DeployedRelease == nil {
		s.Manifest = ""
		return nil
	}
	if !bound.changed && (s.Manifest != "" || !p.Reason.Has(controller.SpecChange)) {
		return nil // A manifest that is too large is not read in each pass.
	}
	manifest, err := c.deps.Engine.Manifest(ctx, bound.release, release.Baseline(s.ReleaseStatus, p.Object.Release.Over(c.kind.Policy), c.kind.Scope), int(s.DeployedRelease.Revision))
	if err != nil {
		return fmt.Errorf("read the manifest for status.deployedRelease.manifest: %w", err)
	}
	if len(manifest) > maxStatusManifest {
		manifest = ""
		event.Emit(ctx, c.deps.Recorder, p.Object, event.Warning("ManifestTooLarge", "Reconcile", fmt.Sprintf(
			"The manifest has more than %d bytes, so status.deployedRelease.manifest is not written", maxStatusManifest)))
	}
	s.Manifest = manifest
	return nil
}

// observePaused sets or removes Paused, and returns the name of the setting that pauses the custom resource, or "".
func (c *kindController) observePaused(ctx context.Context, p *pass, content *unstructured.Unstructured) (pausedBy string, err error) {
	text := "Annotation " + c.kind.PauseAnnotation + " is true"
	switch {
	case isTrue(p.Object, c.kind.PauseAnnotation):
		pausedBy = "annotation " + c.kind.PauseAnnotation
	case c.kind.Paused != nil:
		paused, err := c.kind.Paused(ctx, content.DeepCopy())
		if err != nil {
			return "", fmt.Errorf("pause handler of %s: %w", c.kind.Name(), err)
		}
		if paused {
			pausedBy, text = pauseHandler, "The operator pauses this resource"
		}
	}
	if pausedBy == "" {
		p.Conditions().Remove(watchesv1alpha1.ConditionPaused)
		return "", nil
	}
	p.Conditions().Set(watchesv1alpha1.ConditionPaused, metav1.ConditionTrue, watchesv1alpha1.ReasonPauseReconcileAnnotationTrue, text)
	return pausedBy, nil
}

// finalize uninstalls the release of a custom resource.
func (c *kindController) finalize(ctx context.Context, p *pass) (event.Event, error) {
	c.pruned.Recall(p)
	content, err := p.Object.Content()
	if err != nil {
		return event.Event{}, c.blockDeletion(p, err)
	}
	pausedBy, err := c.observePaused(ctx, p, content)
	if err != nil {
		return event.Event{}, c.blockDeletion(p, err)
	}
	if pausedBy != "" {
		setUpstream(p.Conditions(), &p.Object.Status.ReleaseStatus, nil, c.kind.ServiceAccountName)
		p.Conditions().MarkReconciling(watchesv1alpha1.ReasonPauseReconcileAnnotationTrue, "Deletion waits until "+pausedBy+" is no longer true")
		return event.Event{}, kind.ErrDeletionWaits
	}
	var remaining []helm.Leftover
	done, err := c.ended(ctx, p, content, func(desired helm.Release) (done event.Event, err error) {
		done, remaining, err = c.uninstall(ctx, p, desired)
		return done, err
	})
	if err != nil {
		return event.Event{}, err
	}
	if len(remaining) > 0 {
		// Events about the objects start the next pass, but an object may lose the
		// annotations by which it is known.
		p.RequeueAfter(remainingRetry)
		setUpstream(p.Conditions(), &p.Object.Status.ReleaseStatus, nil, c.kind.ServiceAccountName)
		message := "Deletion waits until these objects are gone: " + helm.Enumerate(remaining)
		p.Conditions().Set(releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, watchesv1alpha1.ReasonUninstallSuccessful, message)
		p.Conditions().MarkReconciling(watchesv1alpha1.ReasonUninstallWaits, message)
		return event.Event{}, kind.ErrDeletionWaits
	}
	return done, nil
}

// letGo lets the release of a custom resource go, also of a paused one: none of its objects changes.
func (c *kindController) letGo(ctx context.Context, p *pass) (event.Event, error) {
	c.pruned.Recall(p)
	content, err := p.Object.Content()
	if err != nil {
		return event.Event{}, c.blockDeletion(p, err)
	}
	return c.ended(ctx, p, content, func(desired helm.Release) (event.Event, error) {
		return c.LetGo(ctx, desired, p.Object.Status.ReleaseStatus, p.Object.Release.Over(c.kind.Policy))
	})
}

// isOrphaned reports whether the objects of the release have lost the custom resource as their owner.
// A release that is not known has no objects.
func (c *kindController) isOrphaned(ctx context.Context, p *pass) (bool, error) {
	c.pruned.Recall(p)
	content, err := p.Object.Content()
	if err != nil {
		return false, nil //nolint:nilerr // Finalize reports the error.
	}
	desired, err := c.releaseOf(ctx, p, content)
	if name := (*nameError)(nil); errors.As(err, &name) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return c.Orphaned(ctx, desired, p.Object.Status.ReleaseStatus, p.Object.Release.Over(c.kind.Policy))
}

// ended calls end, the last step of a deletion, with the release of a custom resource. It reports a
// failure. If there can be no release, or if the namespace is deleted with it, there is nothing to do.
func (c *kindController) ended(
	ctx context.Context, p *pass, content *unstructured.Unstructured, end func(helm.Release) (event.Event, error),
) (event.Event, error) {
	desired, err := c.releaseOf(ctx, p, content)
	if name := (*nameError)(nil); errors.As(err, &name) && p.Object.Status.DeployedRelease == nil && len(p.Object.Status.Inventory) == 0 {
		return event.Normal("NothingToUninstall", "Delete", "There is no release: "+name.Error()), nil
	}
	if err != nil {
		return event.Event{}, c.blockDeletion(p, err)
	}
	done, err := end(desired)
	if apierrors.IsForbidden(err) {
		deleted, lookErr := c.isDeletedWithNamespace(ctx, desired, p.Object.Status.Inventory)
		if deleted {
			return event.Normal("LeftAlone", "Delete", fmt.Sprintf("Left release %s to the deletion of namespace %s", desired.Name, desired.Namespace)), nil
		}
		err = errors.Join(err, lookErr)
	}
	if err != nil {
		return event.Event{}, c.blockDeletion(p, err)
	}
	return done, nil
}

func (c *kindController) uninstall(ctx context.Context, p *pass, desired helm.Release) (event.Event, []helm.Leftover, error) {
	s := p.Object.Status.ReleaseStatus
	if desired.AwaitRemoval {
		return c.UninstallAndAwait(ctx, p, desired, s, p.Object.Release.Over(c.kind.Policy))
	}
	done, _, err := c.Uninstall(ctx, p, desired, s, p.Object.Release.Over(c.kind.Policy))
	return done, nil, err
}

// isDeletedWithNamespace reports whether the namespace of a release is being deleted with all
// objects of the release. The service account of the release may have lost its rights by then.
func (c *kindController) isDeletedWithNamespace(ctx context.Context, desired helm.Release, inventory []releasev1alpha1.InventoryEntry) (bool, error) {
	outside := func(entry releasev1alpha1.InventoryEntry) bool { return entry.Namespace != desired.Namespace }
	if desired.ServiceAccount == "" || slices.ContainsFunc(inventory, outside) {
		return false, nil
	}
	namespace, err := c.deps.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, desired.Namespace, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("look whether the namespace is being deleted: %w", err)
	}
	return namespace.GetDeletionTimestamp() != nil, nil
}

// blockDeletion reports why the deletion cannot complete. The deletion is always retried.
func (c *kindController) blockDeletion(p *pass, cause error) error {
	cause = c.redactor.Error(cause)
	p.Conditions().MarkReconciling(releasev1alpha1.ReasonUninstallFailed, "Deletion waits: "+cause.Error())
	setUpstream(p.Conditions(), &p.Object.Status.ReleaseStatus, cause, c.kind.ServiceAccountName)
	p.Conditions().Set(watchesv1alpha1.ConditionReleaseFailed, metav1.ConditionTrue, watchesv1alpha1.ReasonUninstallError, cause.Error())
	return cause
}

// reportUninstalled completes the status of a custom resource without a release.
func (c *kindController) reportUninstalled(p *pass, _ event.Event) {
	p.Object.Status.Manifest = ""
	setUpstream(p.Conditions(), &p.Object.Status.ReleaseStatus, nil, c.kind.ServiceAccountName)
}
