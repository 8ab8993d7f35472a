// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/expiring"
	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/overlay"
	"github.com/example/demoapp-controller/pkg/ssa"
)

const (
	// maxAttempts is the number of attempts to write a child in one pass, if other clients write it
	// at the same time.
	maxAttempts = 3
	// maxCorrected is the number of children that a correction names.
	maxCorrected = 8
	// conflictRetry is the interval at which a conflicting object is checked again. A watch may not
	// show its deletion, because the object may lack the label of children. A refused child is applied
	// again at the same interval, because the policy, webhook or schema may have changed.
	conflictRetry = 5 * time.Minute
)

// Set reconciles the children of the owners of one kind. It is safe for concurrent use.
type Set struct {
	owner schema.GroupVersionKind
	kinds map[schema.GroupVersionKind]ManagedKind
	// optional has further kinds. The map is fixed. mu protects its values.
	optional map[schema.GroupVersionKind]*optional

	drifts drifts
	// provided are the objects that users created in place of [Once] children. No informer has
	// them, because they lack the label of children. An object is read again after conflictRetry.
	provided expiring.Map[childKey, *Observed]
	// blocked are the owners that cannot create a child because another owner has an object with
	// its name. They are queued when the object is deleted. An entry expires after conflictRetry,
	// because the next pass of its owner adds it again.
	blocked expiring.Map[blockedOwner, struct{}]
	// queue is the queue of the owners.
	queue controller.Enqueuer
	// flights are the calls of Ensure in progress.
	flights overlay.Flights[controller.Reason]
	// confirm and confirmOnce return an error if an owner is not the newest version. See Loop.
	confirm, confirmOnce func(ctx context.Context, owner metav1.Object) error
	// conditionsOf returns the conditions of an owner. See Loop.
	conditionsOf func(owner metav1.Object) *[]metav1.Condition
	// fleet rolls newer templates out. It is nil for children without a template.
	fleet *rollout.Fleet

	// pods explain children that are not healthy; nil if nothing does.
	pods *PodHealth

	mu sync.Mutex
}

// blockedOwner is an owner that cannot create a child.
type blockedOwner struct {
	child childKey
	owner cache.ObjectName
}

// NewSet returns a set for the children of one kind of owners. No two kinds of children may have
// the same name, because the status identifies children by kind and name.
func NewSet(owner schema.GroupVersionKind, kinds ...ManagedKind) *Set {
	s := &Set{
		owner: owner, kinds: map[schema.GroupVersionKind]ManagedKind{}, optional: map[schema.GroupVersionKind]*optional{},
		confirm:      func(context.Context, metav1.Object) error { return nil },
		confirmOnce:  func(context.Context, metav1.Object) error { return nil },
		conditionsOf: func(metav1.Object) *[]metav1.Condition { return &[]metav1.Condition{} },
	}
	for _, k := range kinds {
		s.kinds[k.gvk] = k
	}
	return s
}

// State is the state of the children after Ensure.
type State struct {
	// Children are the desired children that exist, in the order of the arguments.
	Children []*Observed
	// Waiting has one line for each child that can be created only after a deletion.
	Waiting []string
	// Contested has one line for each child that other clients change repeatedly.
	Contested []string
	// Unserved are the desired children that are omitted because the API server does not serve
	// their kind, as kind/name. See [Set.Optional].
	Unserved []childv1alpha1.ChildName
	// Lost has one line for each unserved child that existed before, or whose kind cannot be listed.
	Lost []string
	// Held are the children that keep an earlier template until a change of their owner, as kind/name.
	Held []childv1alpha1.ChildName
	// Notes has one line for each part of a desired child that is not sent.
	Notes []string
	// RetryAfter is the time after which Ensure must be called again, even without an event. 0
	// means never.
	RetryAfter time.Duration

	kinds []string
	// problems has the reasons why children do not match the desired state.
	problems map[id]problem
}

// problem is the reason why a child does not match the desired state.
type problem struct {
	err                error
	waiting, contested string
	lost               string
}

// Of returns a child by kind and name. It returns an empty child if the state has no such child.
func (s State) Of(kind, name string) *Observed {
	for i, child := range s.Children {
		if s.kinds[i] == kind && child.Name == name {
			return child
		}
	}
	return &Observed{}
}

// Has reports whether the owner has one of these children: the status records it, or a cache shows
// it.
func (s *Set) Has(owner metav1.Object, status *childv1alpha1.ChildrenStatus, children ...Desired) bool {
	records, kinds := &pass{status: status}, s.written()
	for _, desired := range children {
		of := idOf(desired)
		record, known := records.record(of)
		if known {
			return true
		}
		got := kinds[schema.FromAPIVersionAndKind(*desired.GetAPIVersion(), of.kind)].observed(owner.GetNamespace(), of.name)
		if got != nil && got.DeletionTimestamp == nil && ownershipOf(owner, s.owner.GroupKind(), record, got) == ownerSelf {
			return true
		}
	}
	return false
}

// Without returns the state without the children of a kind, for a report that does not depend on
// their health. Problems that prevent writes of children stay in the state.
func (s State) Without(kind string) State {
	without := s
	without.Children, without.kinds = nil, nil
	for i, child := range s.Children {
		if s.kinds[i] != kind {
			without.Children, without.kinds = append(without.Children, child), append(without.kinds, s.kinds[i])
		}
	}
	return without
}

// Ensure creates, updates and deletes the children of an owner, so that they match the desired
// state. A child that matches the desired state costs no request. Ensure reads the records of
// earlier applies from status, and updates them even if it returns an error.
//
// If other clients change a child repeatedly, Ensure restores it at growing intervals, up to 5
// minutes, until the changes stop for a while.
//
// Errors are joined: a child that cannot be written does not block the remaining children. An
// [*OwnershipConflictError] and a [*RefusedError] are terminal.
func (s *Set) Ensure(
	ctx context.Context, owner metav1.Object, status *childv1alpha1.ChildrenStatus, now time.Time, desired ...Desired,
) (State, error) {
	if owner.GetDeletionTimestamp() != nil {
		return State{}, nil // The garbage collector deletes the children.
	}
	key := cache.MetaObjectToName(owner)
	s.flights.Begin(key)
	defer s.end(key)
	pass := &pass{set: s, owner: owner, conditions: s.conditionsOf(owner), status: status.DeepCopy(), now: now}
	pass.state.problems, pass.children = map[id]problem{}, map[id]desiredChild{}
	children := make([]desiredChild, 0, len(desired))
	keep := map[id]bool{}
	for _, d := range desired {
		child, err := prepare(owner, s.owner, d)
		if err == nil && keep[child.id] {
			err = fmt.Errorf("%s: two desired children have this kind and name", child.id)
		}
		if err != nil {
			return State{}, controller.Terminal(err)
		}
		children, keep[child.id], pass.children[child.id] = append(children, child), true, child
	}
	var errs []error
	for _, child := range children {
		pass.state.Notes = append(pass.state.Notes, child.notes...)
		err := pass.ensure(ctx, child)
		pass.note(child.id, func(found *problem) { found.err = err })
		if _, refused := errors.AsType[*RefusedError](err); refused {
			pass.retryAfter(conflictRetry)
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			return pass.state, errors.Join(append(errs, ctx.Err())...)
		}
	}
	errs = append(errs, pass.prune(ctx, keep))
	pass.explain(ctx)
	err := errors.Join(errs...)
	pass.reportRollout(err)
	pass.report(status)
	return pass.state, err
}

// pass is one call of Ensure.
type pass struct {
	set   *Set
	owner metav1.Object
	// conditions are the conditions of the owner, which the pass may change.
	conditions *[]metav1.Condition
	// status is the status before the pass.
	status *childv1alpha1.ChildrenStatus
	now    time.Time
	// children are the desired children.
	children map[id]desiredChild
	// unconfirmed is the error of confirmed.
	unconfirmed error

	state     State
	applied   []childv1alpha1.AppliedChild
	corrected []childv1alpha1.ChildName

	// asked says that the owner has asked for its turn in the rollout, with this answer. taken says
	// that a child was written in that turn. queued are the children that wait for it, and held has a
	// line for each child that waits for a change of the owner.
	asked, taken bool
	answer       rollout.Answer
	queued, held []string
}

// report updates the owner's status.
func (p *pass) report(status *childv1alpha1.ChildrenStatus) {
	status.Applied = p.applied
	if len(p.corrected) > 0 {
		status.LastCorrection = &childv1alpha1.Correction{
			Time: metav1.NewTime(p.now).Rfc3339Copy(), Children: p.corrected[:min(len(p.corrected), maxCorrected)],
		}
	}
}

func (p *pass) record(child id) (childv1alpha1.AppliedChild, bool) {
	i := slices.IndexFunc(p.status.Applied, func(r childv1alpha1.AppliedChild) bool { return r.Kind == child.kind && r.Name == child.name })
	if i < 0 {
		return childv1alpha1.AppliedChild{}, false
	}
	return p.status.Applied[i], true
}

// ensure creates or updates one child.
func (p *pass) ensure(ctx context.Context, desired desiredChild) error {
	record, known := p.record(desired.id)
	kind, served, err := p.set.kindOf(desired.gvk, p.owner, p.now)
	if controller.IsPending(err) {
		p.retain(desired, record, known, nil)
		return err
	}
	if err != nil {
		return controller.Terminal(fmt.Errorf("%s: %w", desired.id, err))
	}
	if !served {
		p.reportUnserved(desired, record, known)
		if known && p.set.cannotBeListed(desired.gvk) {
			p.lose(desired.id, fmt.Sprintf("%s %q cannot be watched, because the API server does not list its kind: "+
				"look at the CRD of the kind and its conversion webhook, and at the permissions of the operator", desired.kind, desired.name))
		}
		return nil
	}
	if got := kind.observed(p.owner.GetNamespace(), desired.name); desired.isRetained(got) || desired.invalid != nil {
		p.retain(desired, record, known, got)
		return desired.invalid
	}
	if known && p.hasEnded(kind, desired, record) {
		return nil
	}
	if desired, err = desired.split(kind); err == nil {
		desired, err = p.withKept(desired)
	}
	if err != nil {
		return controller.Terminal(fmt.Errorf("%s: %w", desired.id, err))
	}
	return p.ensureServed(ctx, kind, desired, record, known)
}

// ensureServed creates or updates a child whose kind is served.
func (p *pass) ensureServed(ctx context.Context, kind ManagedKind, desired desiredChild, applied childv1alpha1.AppliedChild, known bool) error {
	record := splitRecord(applied, desired)
	doubted := kind.isDoubted(p.owner.GetNamespace(), desired.name)
	if doubted {
		record.Fingerprint = "" // The child has changed since the apply.
	}
	if got := kind.observed(p.owner.GetNamespace(), desired.name); p.keepsTemplate(desired, record, got) {
		var err error
		if desired, err = p.withTemplate(ctx, kind, desired, record, got); err != nil {
			p.retain(desired, applied, known, got)
			return err
		}
	}
	got, contest := p.observeDrift(ctx, kind, desired, record, doubted)
	defer func() { p.reportContest(desired, contest) }()
	var written *Observed
	var err error
	if contest.Wait <= 0 {
		written, err = p.write(ctx, kind, desired, record, got)
	}
	if p.set.isOptional(desired.gvk) && isUnserved(err) {
		p.set.skip(desired.gvk, p.owner)
		p.reportUnserved(desired, record, known)
		if known {
			p.reportLost(desired.id)
		}
		p.retryAfter(unservedRetry)
		return nil
	}
	if written == nil {
		p.retain(desired, record, known, got)
		return err
	}
	p.exists(desired, written)
	p.taken = p.taken || p.asked && p.answer == rollout.Granted && desired.template != record.Template
	if metav1.IsControlledBy(written, p.owner) {
		p.applied = append(p.applied, recordOf(p.owner, desired, written))
	}
	return nil
}

// hasEnded reports whether a child is done: it has ended by itself, and is gone. Only another desired
// state starts it again. hasEnded adds the child to the state.
func (p *pass) hasEnded(kind ManagedKind, desired desiredChild, record childv1alpha1.AppliedChild) bool {
	if record.Digest != desired.digest || kind.observed(p.owner.GetNamespace(), desired.name) != nil {
		return false
	}
	end := kind.endOf(p.owner.GetNamespace(), record)
	if end == "" {
		return false
	}
	record.Ended = string(end)
	p.applied = append(p.applied, record)
	p.exists(desired, &Observed{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.owner.GetNamespace(), Name: desired.name, UID: types.UID(record.UID)},
		Health:     health.OfEnded(end),
	})
	return true
}

// reportUnserved reports a child whose kind is not served, and keeps its record.
func (p *pass) reportUnserved(desired desiredChild, record childv1alpha1.AppliedChild, known bool) {
	p.state.Unserved = append(p.state.Unserved, desired.childName())
	if known {
		p.applied = append(p.applied, record)
	}
}

// reportLost reports a child that existed and cannot be restored, because the API server no longer
// serves its kind.
func (p *pass) reportLost(child id) {
	p.lose(child, fmt.Sprintf("%s %q is gone, and the API server does not serve its kind any more: install the CRD again", child.kind, child.name))
}

// lose reports a child that cannot be kept in order, and why.
func (p *pass) lose(child id, text string) {
	p.state.Lost = append(p.state.Lost, text)
	p.note(child, func(found *problem) { found.lost = text })
}

// retain reports a child that is not written, and keeps its record. got is the observed child, or
// nil.
func (p *pass) retain(desired desiredChild, record childv1alpha1.AppliedChild, known bool, got *Observed) {
	if known {
		p.applied = append(p.applied, record)
	}
	if got != nil && metav1.IsControlledBy(got, p.owner) {
		p.exists(desired, got)
	}
}

// exists adds a child to the state.
func (p *pass) exists(desired desiredChild, got *Observed) {
	p.state.Children, p.state.kinds = append(p.state.Children, got), append(p.state.kinds, desired.kind)
}

// observeDrift returns the observed child, and the contest about it if it has drifted. Whether a
// doubted child has drifted is known only after the correction.
func (p *pass) observeDrift(
	ctx context.Context, kind ManagedKind, desired desiredChild, record childv1alpha1.AppliedChild, doubted bool,
) (*Observed, controller.Contest) {
	got := kind.observed(p.owner.GetNamespace(), desired.name)
	if got == nil && desired.once {
		got, _ = p.set.provided.Get(p.childKey(desired.id), p.now)
	}
	action := p.decide(desired, record, got)
	drifted := (action == actionCreate || action == actionUpdate) && isCorrection(desired, record, got)
	if !drifted || !doubted {
		p.set.drifts.observe(p.childKey(desired.id), drifted, p.now)
	}
	if !drifted {
		return got, controller.Contest{}
	}
	return got, p.contest(ctx, kind, desired, record, got)
}

// reportContest reports a child that other clients change repeatedly. It schedules the pass that
// restores the child, or that finds no further changes. contest is the contest about a drifted child.
func (p *pass) reportContest(child desiredChild, contest controller.Contest) {
	texts, ends := p.set.drifts.corrections.Contests(p.appliedKey(child), p.now)
	if len(texts) == 0 {
		return
	}
	p.state.Contested = append(p.state.Contested, texts...)
	p.note(child.id, func(found *problem) { found.contested = strings.Join(texts, "; ") })
	for i := range p.applied {
		if record := &p.applied[i]; record.Kind == child.kind && record.Name == child.name {
			record.Contested = true
		}
	}
	p.retryAfter(ends + 1)
	if contest.Wait > 0 {
		p.retryAfter(contest.Wait)
	}
}

// awaits records why a child cannot be created yet.
func (p *pass) awaits(child id, text string) {
	p.state.Waiting = append(p.state.Waiting, text)
	p.note(child, func(found *problem) { found.waiting = text })
}

// note changes the problem of a child.
func (p *pass) note(child id, change func(*problem)) {
	found := p.state.problems[child]
	change(&found)
	p.state.problems[child] = found
}

func (p *pass) childKey(child id) childKey { return childKey{p.owner.GetNamespace(), child} }

func (p *pass) appliedKey(desired desiredChild) appliedKey {
	return appliedKey{p.childKey(desired.id), desired.digest}
}

// retryAfter schedules the next pass after d at the latest.
func (p *pass) retryAfter(d time.Duration) {
	if p.state.RetryAfter == 0 || d < p.state.RetryAfter {
		p.state.RetryAfter = d
	}
}

// write writes a child until it matches the desired state. got is the observed child, or nil. write
// returns nil if the child must wait.
func (p *pass) write(
	ctx context.Context, kind ManagedKind, desired desiredChild, record childv1alpha1.AppliedChild, got *Observed,
) (*Observed, error) {
	client, cached := kind.client(p.owner.GetNamespace()), got
	var answer error
	for range maxAttempts {
		if desired.isRetained(got) {
			return nil, nil
		}
		action := p.decide(desired, record, got)
		switch action {
		case actionNone:
			return got, nil
		case actionWait:
			p.retryAfter(conflictRetry)
			p.awaits(desired.id, fmt.Sprintf("%s %q is being deleted", desired.kind, desired.name))
			return nil, nil
		case actionConflict:
			p.set.blocked.Set(blockedOwner{p.childKey(desired.id), cache.MetaObjectToName(p.owner)}, struct{}{}, conflictRetry, p.now)
			if got == cached && !desired.once && kind.observed(p.owner.GetNamespace(), desired.name) == nil {
				got = nil // The object was deleted meanwhile, and its event came before blocked.Set.
				continue
			}
			p.retryAfter(conflictRetry)
			return nil, controller.Terminal(&OwnershipConflictError{
				Object: Named(desired.kind, desired.name), Holder: controllerText(got), Remedy: DeleteOrRename,
			})
		case actionCreate, actionUpdate:
		}
		if desired.isIncomplete {
			p.retryAfter(time.Second) // The child has changed meanwhile.
			return nil, nil
		}
		if err := p.confirm(ctx, got); err != nil {
			return nil, err
		}
		var applied metav1.Object
		if applied, answer = p.apply(ctx, client, desired, got); answer == nil {
			return p.wrote(ctx, kind, desired, record, got, applied), nil
		}
		if apierrors.HasStatusCause(answer, corev1.NamespaceTerminatingCause) {
			p.awaits(desired.id, "the namespace is being deleted")
			return nil, nil
		}
		if !ssa.IsOtherObject(answer) || action == actionCreate && apierrors.IsInvalid(answer) {
			return nil, applyError(answer)
		}
		live, err := client.Get(ctx, desired.name)
		switch {
		case apierrors.IsNotFound(err):
			got = nil
		case err != nil:
			// The live object decides whether the answer is terminal, so a failed GET is retried.
			return nil, fmt.Errorf("%v; get the object: %w", answer, err) //nolint:errorlint // See above.
		case got != nil && live.GetUID() == got.UID && apierrors.IsInvalid(answer):
			return nil, applyError(answer)
		default:
			got = kind.observe(live)
			if desired.once && metav1.GetControllerOfNoCopy(got) == nil {
				p.set.provided.Set(p.childKey(desired.id), got, conflictRetry, p.now)
			}
		}
	}
	return nil, applyError(answer)
}

// confirm returns an error if the owner may be an old version, which must not change an existing
// child. A new child needs no confirmation: the creation changes no object, and without its owner
// the child is garbage collected.
func (p *pass) confirm(ctx context.Context, got *Observed) error {
	switch {
	case got == nil:
		return nil
	case metav1.GetControllerOfNoCopy(got) == nil:
		// A deletion with the propagation policy Orphan removes the owner references of the
		// children. An owner from a stale cache must not add them again.
		return p.confirmed(ctx, p.set.confirm)
	default:
		return p.confirmed(ctx, p.set.confirmOnce)
	}
}

// confirmed asks for a confirmation of the owner. After an error, no call in this pass succeeds,
// although the API server's answer has confirmed the newest version.
func (p *pass) confirmed(ctx context.Context, ask func(ctx context.Context, owner metav1.Object) error) error {
	if p.unconfirmed == nil {
		p.unconfirmed = ask(ctx, p.owner)
	}
	return p.unconfirmed
}

// wrote records that a child was written over got, and returns the child.
// The status does not record the corrections of a contest, only its begin and end.
func (p *pass) wrote(
	ctx context.Context, kind ManagedKind, desired desiredChild, record childv1alpha1.AppliedChild, got *Observed, applied metav1.Object,
) *Observed {
	changed := got == nil || got.ResourceVersion != applied.GetResourceVersion()
	corrected := changed && isCorrection(desired, record, got)
	klog.FromContext(ctx).Info("Applied a child", "target", desired.id.String(), "corrected", corrected)
	if corrected {
		child, writer := p.appliedKey(desired), writerOf(record, got)
		if !p.set.drifts.corrections.Against(child, writer, p.now).Begun {
			p.corrected = append(p.corrected, desired.childName())
		}
		p.set.drifts.corrected(child, writer, p.now)
	}
	result := kind.observe(applied)
	p.set.flights.Wrote(cache.MetaObjectToName(p.owner), applied)
	kind.views.In(p.owner.GetNamespace()).Wrote(result)
	return result
}

// keepsTemplate is keepsTemplate for a child of the owner.
func (p *pass) keepsTemplate(desired desiredChild, record childv1alpha1.AppliedChild, got *Observed) bool {
	return got != nil && keepsTemplate(ownershipOf(p.owner, p.set.owner.GroupKind(), record, got), desired, record, got, p.hasChanged(desired, record))
}

func (p *pass) decide(desired desiredChild, record childv1alpha1.AppliedChild, got *Observed) action {
	owned := ownerSelf
	if got != nil {
		owned = ownershipOf(p.owner, p.set.owner.GroupKind(), record, got)
	}
	return decide(owned, desired, record, got)
}

// apply sends one server-side apply. Without an observed object, the request only creates.
// Otherwise it is forced and bound to the UID.
func (p *pass) apply(ctx context.Context, client client, desired desiredChild, got *Observed) (metav1.Object, error) {
	mode := ssa.Create
	if got != nil {
		mode = ssa.Over(got.trace.Fingerprint)
	}
	applier := ssa.Applier{Client: client, Manager: FieldManager, Object: Named(desired.kind, desired.name)}
	applied, err := applier.Apply(ctx, desired.object, mode, uidOf(got))
	if err != nil {
		return nil, err
	}
	return applied, ssa.CheckWatched(applier.Object, desired.object, applied)
}

// Reference returns a controller reference to owner. The reference does not block the deletion of
// the owner, because that may need a permission on the owner's finalizers.
func Reference(owner metav1.Object, apiVersion, kind string) metav1.OwnerReference {
	isController := true
	return metav1.OwnerReference{
		APIVersion: apiVersion, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &isController,
	}
}
