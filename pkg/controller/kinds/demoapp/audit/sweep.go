// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/ssa"
)

const (
	// sweepPeriod is the time between two sweeps, with a jitter of 10 %.
	sweepPeriod = time.Hour
	// sweepDelay is the minimum time between two sweeps, with a jitter of 10 %.
	sweepDelay = 5 * time.Second
	// maxRemoved bounds the records that one sweep removes.
	maxRemoved = 1000
)

// Run waits for the informer, then sweeps until stop or lead ends.
func (t *Trail) Run(stop, lead context.Context) error {
	ctx, cancel := context.WithCancel(stop)
	defer cancel()
	defer context.AfterFunc(lead, cancel)()
	if !cache.WaitForCacheSync(ctx.Done(), t.config.Informer.HasSynced) {
		return nil
	}
	for {
		left, err := t.sweep(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Audit records could not be removed; the next sweep tries again")
		}
		if !left && !t.wait(ctx, sweepPeriod, t.sweepDue) {
			return nil
		}
		if !t.wait(ctx, sweepDelay, nil) {
			return nil
		}
	}
}

// wait waits for period with jitter, for an element of early, or for the end of ctx. It returns
// false if ctx has ended.
func (t *Trail) wait(ctx context.Context, period time.Duration, early <-chan struct{}) bool {
	timer := t.config.Clock.NewTimer(controller.Jitter(period))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-early:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// sweep removes records that exceed the retention or a limit, up to maxRemoved. It reports whether
// more must be removed.
func (t *Trail) sweep(ctx context.Context) (left bool, err error) {
	removed, errs := 0, []error(nil)
	defer func() {
		if removed > 0 {
			klog.FromContext(ctx).Info("Removed audit records that were too old or too many", "count", removed)
		}
	}()
	for _, source := range t.stored.ListIndexFuncValues(bySource) {
		for _, record := range t.surplus(t.of(source)) {
			if removed+len(errs) == maxRemoved {
				return true, errors.Join(errs...)
			}
			// If a record cannot be removed, continue with the next one.
			if err := t.remove(ctx, record); err != nil {
				errs = append(errs, err)
				continue
			}
			removed++
		}
	}
	return false, errors.Join(errs...)
}

// surplus returns the records of one source namespace that must be removed.
func (t *Trail) surplus(records []*metav1.PartialObjectMetadata) []*metav1.PartialObjectMetadata {
	now := t.config.Clock.Now()
	isExpired := func(record *metav1.PartialObjectMetadata) bool {
		return t.config.Retention > 0 && now.Sub(record.CreationTimestamp.Time) >= t.config.Retention
	}
	// The order of removal: expired records, records without contents, other records. The oldest of
	// each go first.
	rank := func(record *metav1.PartialObjectMetadata) int {
		switch {
		case isExpired(record):
			return 0
		case t.isReduced(record):
			return 1
		default:
			return 2
		}
	}
	slices.SortFunc(records, func(a, b *metav1.PartialObjectMetadata) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	expired := 0
	for expired < len(records) && isExpired(records[expired]) {
		expired++
	}
	return records[:max(expired, len(records)-MaxRecords)]
}

// remove deletes the record with this UID. A record that is gone is not an error.
func (t *Trail) remove(ctx context.Context, record *metav1.PartialObjectMetadata) error {
	err := t.config.ConfigMaps.ConfigMaps(record.Namespace).Delete(ctx, record.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &record.UID},
	})
	if err != nil && !ssa.IsGone(err, record.Name) && !ssa.IsOutdated(err, record.Name) {
		return fmt.Errorf("remove audit record %s/%s: %w", record.Namespace, record.Name, err)
	}
	return nil
}
