// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/expiring"
	"github.com/example/demoapp-controller/pkg/ssa"
)

const (
	// maxAttempts is how often a child is written in one pass, when others write it at the
	// same time.
	maxAttempts = 3
	// maxCorrected is how many children a correction names.
	maxCorrected = 8
	// conflictRetry is the time after which an object that is in the way is looked at again.
	// No watch may show when it is gone, because it need not carry the label of children.
	conflictRetry = 5 * time.Minute
)

// Set keeps the children of the owners of one kind. It is safe for concurrent use.
type Set struct {
	owner schema.GroupVersionKind
	kinds map[schema.GroupVersionKind]Kind
	// optional are further kinds. The map is fixed; mu protects what is in it.
	optional map[schema.GroupVersionKind]*optional

	corrections corrections
	drifts      drifts
	// provided are the objects that users created in the place of children that are created
	// once. No cache has them, because they lack the label of children. An object is looked up
	// again after conflictRetry.
	provided expiring.Map[childKey, *Observed]
	// blocked are the owners that cannot have a child because another owner has an object of
	// its name. They are queued when the object is gone. An owner is dropped after
	// conflictRetry, because its next pass adds it again.
	blocked expiring.Map[blockedOwner, struct{}]
	// confirm and confirmOnce return an error if an owner is not the newest version. See Loop.
	confirm, confirmOnce func(ctx context.Context, owner metav1.Object) error

	mu      sync.Mutex
	flights map[cache.ObjectName]*flight
}

// blockedOwner is an owner that cannot have a child.
type blockedOwner struct {
	child childKey
	owner cache.ObjectName
}

// NewSet returns a set of children of those kinds, of owners of that kind. No two kinds of
// children have the same name, because the status names children by kind and name.
func NewSet(owner schema.GroupVersionKind, kinds ...Kind) *Set {
	s := &Set{
		owner: owner, kinds: map[schema.GroupVersionKind]Kind{}, optional: map[schema.GroupVersionKind]*optional{},
		flights:     map[cache.ObjectName]*flight{},
		confirm:     func(context.Context, metav1.Object) error { return nil },
		confirmOnce: func(context.Context, metav1.Object) error { return nil },
	}
	for _, k := range kinds {
		s.kinds[k.gvk] = k
	}
	return s
}

// State is what Ensure leaves behind.
type State struct {
	// Children are the desired children that exist, in the order in which they were given.
	Children []*Observed
	// Waiting says what has to be gone before a child can be created, one line each.
	Waiting []string
	// Contested says which children other clients change again and again, one line each.
	Contested []string
	// Unserved are the desired children that are left out because the API server does not
	// serve their kind, as kind/name. See [Set.Optional].
	Unserved []childv1alpha1.ChildName
	// Lost says which of them existed before, one line each.
	Lost []string
	// RetryAfter is the time after which Ensure should be called again although nothing
	// happened; 0 for none.
	RetryAfter time.Duration

	kinds []string
	// problems are what keeps children from being as desired.
	problems map[id]problem
}

// problem is what keeps one child from being as desired.
type problem struct {
	err                error
	waiting, contested string
	lost               string
}

// Of returns a child, by kind and name; an empty one if it does not exist.
func (s State) Of(kind, name string) *Observed {
	for i, child := range s.Children {
		if s.kinds[i] == kind && child.Name == name {
			return child
		}
	}
	return &Observed{}
}

// Has reports whether the owner has one of these children: it was applied before, or it
// exists as far as the caches show.
func (s *Set) Has(owner metav1.Object, status *childv1alpha1.ChildrenStatus, children ...Desired) bool {
	records, kinds := &pass{status: status}, s.written()
	for _, desired := range children {
		of := idOf(desired)
		record, known := records.record(of)
		if known {
			return true
		}
		got := kinds[schema.FromAPIVersionAndKind(*desired.GetAPIVersion(), of.kind)].observed(owner.GetNamespace(), of.name)
		if got != nil && got.DeletionTimestamp == nil && belongsTo(owner, s.owner.GroupKind(), record, got) == ours {
			return true
		}
	}
	return false
}

// Without returns the state without the children of a kind, for a report that does not depend
// on their health. What keeps children from being written stays in the state.
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

// Ensure makes the children of an owner the desired ones. A child that is as desired and
// as it was applied costs no request. Children that are no longer desired are deleted. The
// status tells what was applied before, and is updated, also beside an error.
//
// A child that others change again and again is restored at growing intervals, up to 5
// minutes, until others leave it alone for a while.
//
// Errors are joined: a child that cannot be written does not keep the others from it. An
// [*OwnershipConflictError] and a [*RefusedError] are terminal.
func (s *Set) Ensure(
	ctx context.Context, owner metav1.Object, status *childv1alpha1.ChildrenStatus, now time.Time, desired ...Desired,
) (State, error) {
	if owner.GetDeletionTimestamp() != nil {
		return State{}, nil // The garbage collector deletes the children.
	}
	pass := &pass{set: s, owner: owner, status: status.DeepCopy(), now: now, flight: s.begin(owner)}
	pass.state.problems = map[id]problem{}
	defer s.end(owner, pass.flight)
	children := make([]desiredChild, 0, len(desired))
	keep := map[id]bool{}
	for _, d := range desired {
		child, err := s.prepare(owner, d)
		if err == nil && keep[child.id] {
			err = fmt.Errorf("%s: two desired children have this kind and name", child.id)
		}
		if err != nil {
			return State{}, controller.Terminal(err)
		}
		children, keep[child.id] = append(children, child), true
	}
	var errs []error
	for _, child := range children {
		err := pass.ensure(ctx, child)
		pass.note(child.id, func(found *problem) { found.err = err })
		errs = append(errs, err)
		if ctx.Err() != nil {
			return pass.state, errors.Join(append(errs, ctx.Err())...)
		}
	}
	errs = append(errs, pass.prune(ctx, keep))
	pass.report(status)
	return pass.state, errors.Join(errs...)
}

// pass is one Ensure.
type pass struct {
	set   *Set
	owner metav1.Object
	// status is what is known from before.
	status *childv1alpha1.ChildrenStatus
	now    time.Time
	flight *flight

	state     State
	applied   []childv1alpha1.AppliedChild
	corrected []childv1alpha1.ChildName
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

// ensure makes one child as desired.
func (p *pass) ensure(ctx context.Context, desired desiredChild) error {
	kind, served, err := p.set.kindOf(desired.gvk, p.owner)
	if err != nil {
		return controller.Terminal(fmt.Errorf("%s: %w", desired.id, err))
	}
	record, known := p.record(desired.id)
	if !served {
		p.leaveOut(desired, record, known)
		return nil
	}
	if got := kind.observed(p.owner.GetNamespace(), desired.name); desired.isRetained(got) {
		p.retain(desired, record, known, got)
		return nil
	}
	if kind.isDoubted(p.owner.GetNamespace(), desired.name) {
		record.Fingerprint = "" // It says no longer that the child is as it was applied.
	}
	got, pause := p.pause(kind, desired, record)
	defer func() { p.reportContest(desired.id, pause) }()
	var written *Observed
	if pause <= 0 {
		written, err = p.write(ctx, kind, desired, record, got)
	}
	if p.set.isOptional(desired.gvk) && isUnserved(err) {
		p.set.skip(desired.gvk, p.owner)
		p.leaveOut(desired, record, known)
		if known {
			p.lost(desired.id)
		}
		p.retryAfter(unservedRetry)
		return nil
	}
	if written == nil {
		p.retain(desired, record, known, got)
		return err
	}
	p.exists(desired, written)
	if metav1.IsControlledBy(written, p.owner) {
		p.applied = append(p.applied, recordOf(desired, written))
	}
	return nil
}

// leaveOut reports a child whose kind is not served. What is known of it is kept.
func (p *pass) leaveOut(desired desiredChild, record childv1alpha1.AppliedChild, known bool) {
	p.state.Unserved = append(p.state.Unserved, desired.childName())
	if known {
		p.applied = append(p.applied, record)
	}
}

// lost reports a child that existed and that cannot be restored, because its kind is gone.
func (p *pass) lost(child id) {
	text := fmt.Sprintf("%s %q is gone, and the API server does not serve its kind any more: install the CRD again", child.kind, child.name)
	p.state.Lost = append(p.state.Lost, text)
	p.note(child, func(found *problem) { found.lost = text })
}

// retain reports a child that is not written: what was applied before is still there. got is
// the child as it is; nil for none.
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

// pause returns for how long the correction of a child has to wait, and the child as it is.
func (p *pass) pause(kind Kind, desired desiredChild, record childv1alpha1.AppliedChild) (*Observed, time.Duration) {
	got := kind.observed(p.owner.GetNamespace(), desired.name)
	if got == nil && desired.once {
		got, _ = p.set.provided.Get(p.childKey(desired.id), p.now)
	}
	todo := p.decide(desired, record, got)
	drifted := (todo == create || todo == change) && isCorrection(desired, record, got)
	p.set.drifts.observe(p.childKey(desired.id), drifted, p.now)
	if !drifted {
		return got, 0
	}
	run := p.set.corrections.run(p.childKey(desired.id), p.now)
	return got, run.last.Add(run.pause()).Sub(p.now)
}

// reportContest reports a child that others change again and again. It asks for the pass
// that restores the child, or that finds that others leave it alone.
func (p *pass) reportContest(child id, pause time.Duration) {
	run := p.set.corrections.run(p.childKey(child), p.now)
	if pause <= 0 && run.count <= freeCorrections {
		return
	}
	text := fmt.Sprintf(
		"%s %q is changed by another client each time it is restored: find the client with kubectl get --show-managed-fields", child.kind, child.name)
	p.state.Contested = append(p.state.Contested, text)
	p.note(child, func(found *problem) { found.contested = text })
	p.retryAfter(run.end().Sub(p.now) + 1)
	if pause > 0 {
		p.retryAfter(pause)
	}
}

// awaits notes what has to be gone before a child can be created.
func (p *pass) awaits(child id, text string) {
	p.state.Waiting = append(p.state.Waiting, text)
	p.note(child, func(found *problem) { found.waiting = text })
}

// note changes what is known of the problem of a child.
func (p *pass) note(child id, change func(*problem)) {
	found := p.state.problems[child]
	change(&found)
	p.state.problems[child] = found
}

func (p *pass) childKey(child id) childKey { return childKey{p.owner.GetNamespace(), child} }

// retryAfter asks for the next pass after d at the latest.
func (p *pass) retryAfter(d time.Duration) {
	if p.state.RetryAfter == 0 || d < p.state.RetryAfter {
		p.state.RetryAfter = d
	}
}

// write writes a child until it is as desired. got is the child as it is; nil for none. It
// returns nil when the child has to wait.
func (p *pass) write(
	ctx context.Context, kind Kind, desired desiredChild, record childv1alpha1.AppliedChild, got *Observed,
) (*Observed, error) {
	client, cached := kind.client(p.owner.GetNamespace()), got
	var answer error
	for range maxAttempts {
		if desired.isRetained(got) {
			return nil, nil
		}
		todo := p.decide(desired, record, got)
		switch todo {
		case leave:
			return got, nil
		case await:
			p.retryAfter(conflictRetry)
			p.awaits(desired.id, fmt.Sprintf("%s %q is being deleted", desired.kind, desired.name))
			return nil, nil
		case refuse:
			p.set.blocked.Set(blockedOwner{p.childKey(desired.id), cache.MetaObjectToName(p.owner)}, struct{}{}, conflictRetry, p.now)
			if got == cached && !desired.once && kind.observed(p.owner.GetNamespace(), desired.name) == nil {
				got = nil // The object has gone meanwhile, and its event came before blocked.Set.
				continue
			}
			p.retryAfter(conflictRetry)
			return nil, controller.Terminal(&OwnershipConflictError{Kind: desired.kind, Name: desired.name, Holder: holder(got)})
		case create, change:
		}
		if got != nil && metav1.GetControllerOfNoCopy(got) == nil {
			// The deletion of an owner that leaves its children takes their owner away, too. A
			// cached owner that is not the newest version must not take them back.
			if err := p.set.confirm(ctx, p.owner); err != nil {
				return nil, fmt.Errorf("%s %q has lost its owner: %w", desired.kind, desired.name, err)
			}
		}
		var applied metav1.Object
		if applied, answer = p.apply(ctx, client, desired, got); answer == nil {
			corrected := isCorrection(desired, record, got)
			klog.FromContext(ctx).Info("Applied a child", "target", desired.id.String(), "corrected", corrected)
			return p.wrote(kind, desired, corrected, applied), nil
		}
		if apierrors.HasStatusCause(answer, corev1.NamespaceTerminatingCause) {
			p.awaits(desired.id, "the namespace is being deleted")
			return nil, nil
		}
		if !ssa.IsOtherObject(answer) || todo == create && apierrors.IsInvalid(answer) {
			return nil, writeError(desired.id, answer)
		}
		live, err := client.get(ctx, desired.name)
		switch {
		case apierrors.IsNotFound(err):
			got = nil
		case err != nil:
			// The live object decides whether the answer is terminal, so a failed GET is retried.
			return nil, writeError(desired.id, fmt.Errorf("%v; get the object: %w", answer, err)) //nolint:errorlint // See above.
		case got != nil && live.GetUID() == got.UID && apierrors.IsInvalid(answer):
			return nil, writeError(desired.id, answer)
		default:
			got = kind.observe(live)
			if desired.once && metav1.GetControllerOfNoCopy(got) == nil {
				p.set.provided.Set(p.childKey(desired.id), got, conflictRetry, p.now)
			}
		}
	}
	return nil, writeError(desired.id, answer)
}

// wrote records that a child was written, and returns the child.
func (p *pass) wrote(kind Kind, desired desiredChild, corrected bool, applied metav1.Object) *Observed {
	if corrected {
		p.corrected = append(p.corrected, desired.childName())
		p.set.corrections.note(p.childKey(desired.id), p.now)
		p.set.drifts.corrected(p.childKey(desired.id), p.now)
	}
	result := kind.observe(applied)
	p.flight.noteWrite(applied)
	kind.view(p.owner.GetNamespace()).Wrote(result)
	return result
}

func (p *pass) decide(desired desiredChild, record childv1alpha1.AppliedChild, got *Observed) action {
	whose := ours
	if got != nil {
		whose = belongsTo(p.owner, p.set.owner.GroupKind(), record, got)
	}
	return decide(whose, desired, record, got)
}

// apply sends one server-side apply: create-only when there is no such object, else forced
// and bound to its UID. Lists that a forced apply cannot restore are restored first.
func (p *pass) apply(ctx context.Context, client client, desired desiredChild, got *Observed) (metav1.Object, error) {
	mode := ssa.Force
	if got == nil {
		mode = ssa.Create
	}
	data, options, err := ssa.Request(desired.object, FieldManager, mode, uidOf(got))
	if err != nil {
		return nil, err
	}
	applied, err := client.patch(ctx, desired.name, applyPatch, data, options)
	lists := ssa.DuplicateLists(err)
	if got == nil || len(lists) == 0 {
		return applied, err
	}
	if restoreErr := p.restoreLists(ctx, client, desired, got, lists); restoreErr != nil {
		// The apply can succeed after the lists are restored, so its own error is not terminal.
		return nil, fmt.Errorf("%v; restore its lists: %w", err, restoreErr) //nolint:errorlint // See above.
	}
	return client.patch(ctx, desired.name, applyPatch, data, options)
}

// prune deletes the children that are not to be kept.
func (p *pass) prune(ctx context.Context, keep map[id]bool) error {
	var errs []error
	kinds := p.set.written()
	for gvk, kind := range kinds {
		for _, child := range kind.ownedBy(p.owner) {
			if of := (id{gvk.Kind, child.Name}); !keep[of] {
				errs = append(errs, p.remove(ctx, kind, of, child))
				keep[of] = true
			}
		}
	}
	for _, record := range p.status.Applied {
		of := id{record.Kind, record.Name}
		if keep[of] || record.Name == "" || len(content.IsPathSegmentName(record.Name)) > 0 {
			continue // No object has such a name, so others have written the record.
		}
		for gvk, kind := range kinds {
			if gvk.Kind == record.Kind {
				errs = append(errs, p.removeUnseen(ctx, kind, of, record))
			}
		}
	}
	return errors.Join(errs...)
}

// removeUnseen deletes a child that the cache does not show as one: it is gone, or lost
// its label or owner.
func (p *pass) removeUnseen(ctx context.Context, kind Kind, of id, record childv1alpha1.AppliedChild) error {
	live, err := kind.client(p.owner.GetNamespace()).get(ctx, of.name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		p.applied = append(p.applied, record)
		return writeError(of, err)
	}
	got := kind.observe(live)
	if belongsTo(p.owner, p.set.owner.GroupKind(), record, got) != ours {
		return nil
	}
	return p.remove(ctx, kind, of, got)
}

func (p *pass) remove(ctx context.Context, kind Kind, of id, child *Observed) error {
	record, known := p.record(of)
	if known {
		p.applied = append(p.applied, record)
	}
	if child.DeletionTimestamp != nil {
		return nil
	}
	// An old version of the owner must not delete what a newer version desires.
	if err := p.set.confirmOnce(ctx, p.owner); err != nil {
		return writeError(of, err)
	}
	background := metav1.DeletePropagationBackground
	err := kind.client(p.owner.GetNamespace()).delete(ctx, child.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(child.UID)), PropagationPolicy: &background,
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return writeError(of, err)
	}
	if known {
		p.applied = p.applied[:len(p.applied)-1]
	}
	klog.FromContext(ctx).Info("Deleted a child", "target", of.String())
	p.flight.noteDelete(child)
	kind.view(p.owner.GetNamespace()).Deleted(child)
	return nil
}

// Reference makes owner the controller of an object. It does not block the deletion of the
// owner, which would take permission on its finalizers where that is enforced.
func Reference(owner metav1.Object, apiVersion, kind string) metav1.OwnerReference {
	isController := true
	return metav1.OwnerReference{
		APIVersion: apiVersion, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &isController,
	}
}
