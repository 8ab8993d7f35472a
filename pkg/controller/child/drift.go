// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/expiring"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// driftMemory is the time after which drift is dropped that no pass observes, because the owner was
// deleted.
const driftMemory = 3 * controller.MaxPause

// childKey identifies a child of any owner.
type childKey struct {
	namespace string
	id
}

// appliedKey identifies a desired state of a child. Another desired state starts afresh, because it
// may have ended the contest.
type appliedKey struct {
	childKey
	digest string
}

// drifts counts the children that have drifted. A child counts once until it matches the desired
// state again. drifts is safe for concurrent use. The zero value is ready to use.
type drifts struct {
	count       controller.DriftCount
	corrections controller.Corrections[appliedKey]

	// seen are the children whose drift has been counted.
	seen expiring.Map[childKey, struct{}]
}

// observe records whether a child has drifted.
func (d *drifts) observe(child childKey, drifted bool, now time.Time) {
	if !drifted {
		d.seen.Delete(child)
	} else if known := d.seen.Set(child, struct{}{}, driftMemory, now); !known {
		d.count.Detected(1)
	}
}

// corrected records that a drifted child was restored. writer identifies the other client.
func (d *drifts) corrected(child appliedKey, writer uint64, now time.Time) {
	d.observe(child.childKey, true, now) // The cache may have missed the drift.
	d.corrections.Corrected(d.count, child.namespace, child, writer, now)
	d.observe(child.childKey, false, now)
}

// writerOf identifies the client that changed a child; 0 if it is unknown, or deleted the child.
func writerOf(record childv1alpha1.AppliedChild, got *Observed) uint64 {
	if got == nil || string(got.UID) != record.UID {
		return 0
	}
	return got.trace.Writer
}

// contest returns the state of the corrections of a drifted child, and describes a new contest.
func (p *pass) contest(
	ctx context.Context, kind ManagedKind, desired desiredChild, record childv1alpha1.AppliedChild, got *Observed,
) controller.Contest {
	child, writer, corrections := p.appliedKey(desired), writerOf(record, got), &p.set.drifts.corrections
	if record.Contested {
		corrections.Resume(child, writer, p.now)
	}
	contest := corrections.Against(child, writer, p.now)
	if contest.Begun && contest.Text == "" {
		contest.Text = p.contestText(ctx, kind, desired, got)
		corrections.Describe(child, writer, contest.Text, p.now)
	}
	return contest
}

// contestText names the fields that another client changes. It sends two requests, one of them a
// dry run. Without an answer, it names the child alone.
func (p *pass) contestText(ctx context.Context, kind ManagedKind, desired desiredChild, got *Observed) string {
	var loss ssa.Loss
	if got != nil {
		var err error
		if loss, err = p.lossOf(ctx, kind, desired, got); err != nil {
			klog.FromContext(ctx).Error(err, "Could not find out which fields of a child another client changes", "target", desired.id.String())
			loss.Managers = []string{"unknown"}
		}
	}
	return controller.ContestText(desired.kind, desired.name, loss.Fields, loss.Managers,
		"change the fields in the spec of its owner, or stop that client")
}

// lossOf compares a child with the result of an apply.
func (p *pass) lossOf(ctx context.Context, kind ManagedKind, desired desiredChild, got *Observed) (ssa.Loss, error) {
	client := kind.client(p.owner.GetNamespace())
	live, err := client.Get(ctx, desired.name)
	if err != nil {
		return ssa.Loss{}, err
	}
	data, options, err := ssa.Request(desired.object, FieldManager, ssa.Force, got.UID)
	if err != nil {
		return ssa.Loss{}, err
	}
	options.DryRun = []string{metav1.DryRunAll}
	applied, err := client.Patch(ctx, desired.name, types.ApplyPatchType, data, options)
	if err != nil {
		return ssa.Loss{}, err
	}
	var sides [2]*unstructured.Unstructured
	for i, object := range []metav1.Object{applied, live} {
		if sides[i], err = toUnstructured(object, desired.gvk); err != nil {
			return ssa.Loss{}, err
		}
	}
	return ssa.LossOf(sides[0], sides[1], FieldManager)
}
