// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/functions"
	"github.com/example/demoapp-controller/pkg/helm/guard"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// cleanupGrace is the time after an operation's deadline in which hooks and objects of a
// failed attempt can still be removed.
const cleanupGrace = 30 * time.Second

// recordGrace is the time after the cleanup in which an operation's outcome can still be
// recorded.
const recordGrace = 30 * time.Second

// Execute executes a decision and returns the deployed release; nil when there was nothing to do.
// The operation continues when ctx is canceled, so that a shutdown does not leave a release
// pending. The release's timeout ends it. A terminal error (see [IsTerminal]) recurs until an input
// or an object changes. A failed operation may return both an error and the release of the
// baseline. This release has the objects that the operation has applied, so that they do not count
// as drift of a revision that is still deployed. If the operation made or tried to make a different
// revision, the error is a [RevisionError], which wraps the cause.
func (e *Engine) Execute(ctx context.Context, desired Release, decision Decision, baseline Baseline) (*Deployed, error) {
	defer e.locks.lock(desired.Key())()
	switch decision.Action {
	case ActionInstall, ActionUpgrade:
		return e.measured(ctx, desired, decision, baseline, func(o *operation) (*Deployed, error) { //nolint:contextcheck // The operation carries its own context, which outlives the caller's.
			return o.deploy(desired, decision)
		})
	case ActionReapply, ActionRepair:
		return e.measured(ctx, desired, decision, baseline, func(o *operation) (*Deployed, error) { //nolint:contextcheck // As above.
			return o.repair(decision, baseline)
		})
	case ActionRollback:
		return e.measured(ctx, desired, decision, baseline, func(o *operation) (*Deployed, error) { //nolint:contextcheck // As above.
			return o.rollback(desired, decision)
		})
	case ActionWait:
		return nil, &BusyError{Release: desired.Key().String(), Status: "being changed", RetryAfter: decision.RetryAfter}
	case ActionRefuse:
		return nil, e.refusal(desired)
	case ActionNone:
		return nil, nil
	default:
		return nil, fmt.Errorf("release %s: unknown action %q", desired.Key(), decision.Action)
	}
}

// refusal returns the error about a release of another owner.
func (e *Engine) refusal(desired Release) error {
	conflict := &OwnershipConflictError{
		Object: ObjectReference{Kind: ssa.ReleaseKind, Namespace: desired.Namespace, Name: desired.Name}, Holder: "another owner",
	}
	if record := e.records.Latest(desired.Key()); record != nil {
		if kind := cmp.Or(record.Owner, record.Controller).Kind; kind != "" {
			conflict.Holder = "a " + kind
		}
	}
	return conflict
}

// baseRecordBytes is the maximum size of a decompressed release record without its chart.
const baseRecordBytes = 4 << 20

// recordLimit returns the largest size in bytes of a decompressed record. It allows for
// twice the largest chart so far: older records may have another version of the chart,
// and some operations do not know the chart.
func (e *Engine) recordLimit(chart *chart.Chart) int {
	if chart != nil {
		for {
			largest := e.largestChart.Load()
			if int64(chart.Size()) <= largest || e.largestChart.CompareAndSwap(largest, int64(chart.Size())) {
				break
			}
		}
	}
	return baseRecordBytes + 2*base64.StdEncoding.EncodedLen(int(e.largestChart.Load()))
}

// measured runs an operation under its own deadline and reports its outcome.
func (e *Engine) measured(ctx context.Context, desired Release, decision Decision, baseline Baseline, run func(*operation) (*Deployed, error)) (*Deployed, error) {
	name, limits := desired.Key(), e.limitsOf(desired)
	started := e.clock.Now()
	within, err := e.boundsOf(desired)
	if err != nil {
		return nil, err
	}
	ctx = guard.With(context.WithoutCancel(ctx), within)
	cleanup, cancelCleanup := context.WithTimeout(ctx, limits.timeout+cleanupGrace)
	defer cancelCleanup()
	ctx, cancel := context.WithTimeout(cleanup, limits.timeout)
	defer cancel()
	logger := e.loggerFor(ctx).With(slog.String("release", name.String()), slog.String("action", string(decision.Action)))
	deadline, _ := cleanup.Deadline()
	store, err := e.newStore(ctx, desired, baseline, within, deadline.Add(recordGrace), logger)
	if err != nil {
		return nil, err
	}
	history, owner := e.records.History(name), record.OwnerOf(desired.Owner)
	owns := len(history) > 0 && desired.owns(owner, history[len(history)-1], baseline.Revision != 0)
	if len(history) > 0 && desired.Owner != nil && !owns {
		return nil, e.refusal(desired)
	}
	o := &operation{
		engine: e, ctx: ctx, cleanup: cleanup, release: name, limits: limits, logger: logger, store: store,
		ownerID: owner, established: desired.Adopt || owns, bounds: within,
		ignore: desired.Ignore, validation: desired.FieldValidation, baseline: baseline, existence: absent, known: byIdentity(baseline.Inventory), hookNames: sets.New[Identity](),
		primary: desired.Owner, awaitsRemoval: desired.AwaitRemoval, rendering: e.renderingOf(ctx, name.Namespace),
	}
	if desired.Takeover {
		o.takeover = desired.Owner
	}
	o.consents = desired.Consents
	store.beforeCreate = o.beforeCreate
	e.flights.Begin(name)
	// After a panic, later changes to the release must still be published.
	defer func() {
		for _, n := range e.flights.End(name) {
			e.publish(n)
		}
	}()
	deployed, err := o.run(desired, history, run) //nolint:contextcheck // The operation carries its own context, which outlives the caller's.
	o.rendering.Pause()
	err = unavailable(o.ofCluster(shortened(withAccount(err, desired)), desired), ctx.Err() != nil)
	if changes := o.changes(desired.Chart); len(changes.Named) > 0 {
		if err != nil {
			err = &RevisionError{Changes: changes, Err: err}
		} else if deployed != nil {
			deployed.Changes = changes
		}
	}
	if err == nil && deployed != nil {
		e.kindChanges.forget(name)
		if newest := e.records.Latest(name); newest != nil && newest.Revision == deployed.Revision {
			e.attempts.succeeded(name, deployed.Revision)
		}
		logger.InfoContext(ctx, "The release has changed", slog.Int("revision", deployed.Revision), slog.Duration("took", e.clock.Since(started)))
	}
	e.onOperation(Operation{
		Release: name, Action: string(decision.Action), Duration: e.clock.Since(started), Drifts: append(o.left, decision.Drifts...), Err: err,
	})
	return deployed, err
}

func byIdentity(inventory []InventoryEntry) map[Identity]InventoryEntry {
	known := map[Identity]InventoryEntry{}
	for _, entry := range inventory {
		known[entry.Identity()] = entry
	}
	return known
}

// renderingOf returns the bounds of a rendering, which waits for its turn and ends when the process
// stops.
func (e *Engine) renderingOf(ctx context.Context, namespace string) functions.Rendering {
	stop := stopping(ctx)
	return functions.Rendering{
		Begin: func() (end func(), err error) { return e.renderings.Begin(stop, ctx, namespace) }, Stop: stop,
	}
}

// run runs the operation, unless the release must not be taken over.
func (o *operation) run(desired Release, history []*record.Record, run func(*operation) (*Deployed, error)) (*Deployed, error) {
	if len(history) > 0 {
		if err := o.checkTakeover(desired, history[len(history)-1]); err != nil {
			return nil, err
		}
	}
	return run(o)
}

// configuration returns the configuration of Helm's actions. Each operation has its own,
// because Helm writes parts of it without a lock.
func (o *operation) configuration() (*action.Configuration, error) {
	capabilities, err := o.engine.mapper.current()
	if err != nil {
		return nil, err
	}
	// Helm logs the errors that it returns, and the API server's errors may contain
	// values of a Secret. The caller decides what to log.
	quiet := quietHandler{o.logger.Handler()}
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(quiet))
	o.lookups = &lookups{kindMapper: o.engine.mapper, operation: o}
	cfg.RESTClientGetter = o.lookups
	cfg.KubeClient = o
	cfg.Capabilities = capabilities
	cfg.CustomTemplateFuncs = o.rendering.Functions()
	cfg.Releases = storage.Init(o.store)
	cfg.Releases.MaxHistory = o.limits.maxHistory
	cfg.Releases.SetLogger(quiet)
	cfg.HookOutputFunc = func(namespace, pod, container string) io.Writer {
		return &logWriter{logger: o.logger.With(slog.String("pod", namespace+"/"+pod), slog.String("container", container))}
	}
	o.cfg = cfg
	return cfg, nil
}

// deploy installs or upgrades.
func (o *operation) deploy(desired Release, decision Decision) (*Deployed, error) {
	inputs, err := desired.InputDigest()
	if err != nil {
		return nil, &RenderError{Chart: desired.Chart.Name(), Err: err}
	}
	o.owner, o.chart, o.replaces = desired.Owner, desired.Chart.Name(), desired.ForceReplace
	o.keepsShutdown = desired.KeepShutdown && decision.Cause != CauseRequested
	cfg, err := o.configuration()
	if err != nil {
		return nil, err
	}
	record := o.store.newest()
	if decision.Replace != 0 {
		if err := o.replace(decision.Replace); err != nil {
			return nil, err
		}
		if record = o.store.newest(); record != nil && common.Status(record.Status).IsPending() {
			o.store.abandoned = record
		}
	} else {
		// A requested upgrade applies all objects, also those that seem unchanged.
		o.trusted = record != nil && record.Applied() && record.Revision == o.baseline.Revision && decision.Cause != CauseRequested
	}
	switch takesOver := takesOver(o.engine.records.History(o.release), o.baseline); {
	case record == nil:
	case common.Status(record.Status).IsPending() && o.store.abandoned == nil:
		return nil, &BusyError{Release: o.release.String(), Status: "being changed"}
	case takesOver && isUninstall(record):
		o.store.abandoned = record
	case common.Status(record.Status) == common.StatusUninstalling:
		if err := o.runUninstall(cfg, desired.Uninstall); err != nil {
			return nil, err
		}
		record = nil
	}
	if err := errors.Join(o.inspect(record), o.inspect(o.store.replaced)); err != nil {
		return nil, err
	}
	var rls *releasev1.Release
	if record == nil || isUninstall(record) {
		rls, err = o.install(cfg, desired, inputs, record)
	} else {
		rls, err = o.upgrade(cfg, desired, inputs, record.Revision+1)
	}
	if err := o.outcome(desired, err); err != nil {
		return o.attempted(), err
	}
	return o.deployed(rls), nil
}

// isUninstall reports whether the release was uninstalled, or its uninstall has begun.
func isUninstall(record *record.Record) bool {
	status := common.Status(record.Status)
	return status == common.StatusUninstalled || status == common.StatusUninstalling
}

// attempted returns the release after a failed attempt: the release of the baseline, with the
// objects that the attempt has applied. It returns nil without a baseline or such objects.
func (o *operation) attempted() *Deployed {
	if o.baseline.Revision == 0 || len(o.inventory) == 0 {
		return nil
	}
	return &Deployed{
		Revision: o.baseline.Revision, Inventory: mergeInventory(o.baseline.Inventory, o.inventory), Scope: o.bounds.Scope,
		Revisions: o.engine.digests.Of(o.release, o.baseline.Revisions, o.engine.records.History(o.release)),
	}
}

// inspect determines whether a revision was applied by client-side apply, as Helm 3 did. The engine
// always uses server-side apply.
func (o *operation) inspect(record *record.Record) error {
	if record == nil || record.Own {
		return nil
	}
	rls, _, err := o.store.read(record.Revision)
	if err != nil {
		return fmt.Errorf("read the deployed release: %w", err)
	}
	o.clientSide = o.clientSide || rls == nil || rls.ApplyMethod == "" || rls.ApplyMethod == string(releasev1.ApplyMethodClientSideApply)
	o.formerObjects = append(o.formerObjects, o.claimedBy(rls)...)
	return nil
}

// install makes the first revision, or a revision after an uninstall that kept the
// history.
func (o *operation) install(cfg *action.Configuration, desired Release, inputs string, newest *record.Record) (*releasev1.Release, error) {
	parsed, err := o.parse(desired.Chart)
	if err != nil {
		return nil, err
	}
	if crds := parsed.CRDObjects(); len(crds) > 0 && !o.bounds.Allow("") {
		return nil, o.note(o.outOfScope(ObjectReference{Kind: crdKind.Kind, Name: crds[0].Name}))
	}
	o.installing, o.phase = desired.Chart.Name(), "install"
	// Helm removes disabled dependencies from the chart before it builds the first file.
	o.checkCRDs = sync.OnceValue(func() error { return o.checkFiles(parsed.CRDObjects()) })
	revision := 1
	if newest != nil {
		revision = newest.Revision + 1
	}
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace = desired.Name, desired.Namespace
	install.Replace = newest != nil
	install.WaitStrategy = kube.HookOnlyStrategy
	install.Timeout = o.limits.timeout
	install.DisableHooks, install.Description = desired.Install.DisableHooks, desired.Install.description(MaxDescription)
	o.skipsHooks = install.DisableHooks
	install.SkipSchemaValidation = true // Helm reads the addresses that a schema names.
	if err := desired.Chart.CheckValues(desired.Values); err != nil {
		return nil, err
	}
	install.Labels = map[string]string{record.InputsLabel: record.InputsValue(revision, inputs, desired.Chart.ShortDigest())}
	o.rendered = true
	result, err := install.RunWithContext(context.WithoutCancel(o.ctx), parsed, desired.Values)
	return releaseOf(result, err)
}

// parse returns a chart for one operation. Like the helm command, it warns of a deprecated
// chart.
func (o *operation) parse(c *chart.Chart) (*chartv2.Chart, error) {
	parsed, err := c.Parse()
	if err == nil && parsed.Metadata.Deprecated {
		o.logger.Warn("The chart is deprecated", slog.String("chart", c.Name()), slog.String("version", c.Version()))
	}
	if note := c.SchemaNote(); note != "" {
		o.logger.Warn("The schema of the chart is not checked in full", slog.String("chart", c.Name()), slog.String("because", note))
	}
	return parsed, err
}

// checkFiles fails when a file under crds/ has objects that cannot be created.
func (o *operation) checkFiles(crds []chartv2.CRD) error {
	var refused refusals
	for _, crd := range crds {
		var render *RenderError
		list, err := o.buildChecked(string(crd.File.Data), manifest.CheckMetadata)
		if errors.As(err, &render) {
			refused.add(crd.Filename, render.Err)
		} else if err := o.review(list); err != nil {
			refused.add(crd.Filename, err)
		}
	}
	if err := refused.err(); err != nil {
		return o.invalid(err)
	}
	return nil
}

// upgrade makes a revision with the given number.
func (o *operation) upgrade(cfg *action.Configuration, desired Release, inputs string, revision int) (*releasev1.Release, error) {
	parsed, err := o.parse(desired.Chart)
	if err != nil {
		return nil, err
	}
	o.phase = "upgrade"
	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace = desired.Namespace
	upgrade.ServerSideApply = "true"
	upgrade.ForceConflicts = true
	upgrade.ResetValues = true
	upgrade.CleanupOnFail = true
	upgrade.MaxHistory = o.limits.maxHistory
	upgrade.WaitStrategy = kube.HookOnlyStrategy
	upgrade.Timeout = o.limits.timeout
	upgrade.DisableHooks, upgrade.Description = desired.Upgrade.DisableHooks, desired.Upgrade.description(MaxDescription)
	o.skipsHooks = upgrade.DisableHooks
	upgrade.SkipSchemaValidation = true // As in install.
	if err := desired.Chart.CheckValues(desired.Values); err != nil {
		return nil, err
	}
	upgrade.Labels = map[string]string{record.InputsLabel: record.InputsValue(revision, inputs, desired.Chart.ShortDigest())}
	o.rendered = true
	result, err := upgrade.RunWithContext(context.WithoutCancel(o.ctx), desired.Name, parsed, desired.Values)
	return releaseOf(result, err)
}

// releaseOf returns the release that a Helm action returned. It checks the error first,
// because Helm may return a typed nil with an error.
func releaseOf(result release.Releaser, err error) (*releasev1.Release, error) {
	if err != nil {
		return nil, err
	}
	rls, ok := result.(*releasev1.Release)
	if !ok || rls == nil {
		return nil, fmt.Errorf("helm returned an unexpected release %T", result)
	}
	return rls, nil
}

// outcome converts the error of an install or upgrade into the engine's errors. It removes
// the record of an attempt that was refused because of an object of another owner.
func (o *operation) outcome(desired Release, err error) error {
	if err = o.fault(err); err == nil {
		return nil
	}
	var conflict *OwnershipConflictError
	if errors.As(o.failure, &conflict) {
		return errors.Join(conflict, o.dropRefused())
	}
	if o.failure == nil && o.store.failure == nil && !o.store.begun && !errors.Is(err, chart.ErrInvalid) {
		// A lookup that failed, or a rendering that was ended, is not an error of the chart.
		if failure := cmp.Or(o.lookups.failure(), o.rendering.Err()); failure != nil {
			return o.ended(desired, failure)
		}
		return &RenderError{Chart: desired.Chart.Name(), Err: withoutNesting(err)}
	}
	return err
}

// ended returns the error of a rendering that did not reach its end.
func (o *operation) ended(desired Release, err error) error {
	switch {
	case errors.Is(err, functions.ErrTimeout):
		return &RenderTimeoutError{Chart: desired.Chart.Name(), Err: err}
	case errors.Is(o.rendering.Err(), context.DeadlineExceeded):
		return &UnavailableError{Err: fmt.Errorf("render chart %s after other charts of the namespace: %w", desired.Chart.Name(), err)}
	default:
		return err
	}
}

// fault returns the real error of a Helm action. Helm reduces some errors to text, and
// only logs that it could not record a success.
func (o *operation) fault(err error) error {
	switch {
	case err == nil:
		return o.store.failure
	case o.failure != nil:
		return o.failure
	case errors.Is(err, driver.ErrReleaseExists):
		return &BusyError{Release: o.release.String(), Status: "being changed"}
	case o.store.failure != nil:
		return o.store.failure
	default:
		return err
	}
}

// dropRefused removes the failed record of a refused attempt, if the attempt changed no
// existing object. Helm itself refuses before it writes a record.
func (o *operation) dropRefused() error {
	newest := o.store.newest()
	if o.touched || newest == nil || newest.Revision != o.store.written() || common.Status(newest.Status) != common.StatusFailed {
		return nil
	}
	return o.store.drop(newest.Secret.Name)
}

// replace prepares the operation to repeat an attempt that failed or was interrupted, or a revision
// whose record is not verified. It fails when the newest revision has changed since the decision.
// Only the attempt's record says which objects it may have changed, so the record stays until the
// next one overwrites it. Helm counts from the previous revision. If that revision is missing, the
// operation makes the next revision instead.
func (o *operation) replace(revision int) error {
	newest := o.store.newest()
	if newest == nil || newest.Revision != revision || !newest.Unfinished() && record.DigestFor(o.store.digests, revision) != "" {
		return fmt.Errorf("release %s: %w: the release has changed since the decision", o.release, ErrNotSynced)
	}
	o.touched = true
	before := 0
	if history := o.store.history(); len(history) > 1 {
		before = history[len(history)-2].Revision
	}
	if before == revision-1 {
		o.store.replaced = newest
	}
	return nil
}

// beforeCreate prepares a revision that is about to be recorded: it checks the hooks, adds the owner,
// checks the existing objects and the consent to a takeover. Then it records the end of older revisions, and
// removes leftovers.
func (o *operation) beforeCreate(next *releasev1.Release) error {
	if err := o.checkHooks(next); err != nil {
		return o.note(err)
	}
	next.Manifest = cmp.Or(o.kept, next.Manifest)
	if err := errors.Join(o.ownManifest(next, false), o.lookFirst(next)); err != nil {
		return o.note(err)
	}
	if err := o.consent(next); err != nil {
		return o.note(err)
	}
	if err := errors.Join(o.store.recordAbandoned(), o.store.supersede()); err != nil {
		return o.note(fmt.Errorf("record the end of older revisions: %w", err))
	}
	return o.removeLeftovers(next, false)
}

// deployed describes the release after the operation.
func (o *operation) deployed(rls *releasev1.Release) *Deployed {
	deployed := &Deployed{
		Revision:     rls.Version,
		ManifestHash: o.manifestHash(rls),
		Inventory:    o.inventory,
		Scope:        o.bounds.Scope,
		Notes:        o.notes,
		Revisions:    o.engine.digests.Of(o.release, o.baseline.Revisions, o.engine.records.History(o.release)),
	}
	if record := o.store.recordAt(record.SecretName(o.release.Name, rls.Version)); record != nil {
		deployed.ChartDigest, deployed.RolledBackTo = record.ChartDigest, record.RolledBackTo
	}
	if rls.Chart != nil && rls.Chart.Metadata != nil {
		deployed.Chart = rls.Chart.Metadata.Name
		deployed.ChartVersion = rls.Chart.Metadata.Version
		deployed.AppVersion = rls.Chart.Metadata.AppVersion
	}
	return deployed
}
