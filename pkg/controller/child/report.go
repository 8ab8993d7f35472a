// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"strings"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/event"
	"github.com/example/demoapp-controller/pkg/controller/status"
)

// Report sets the conditions Ready, Reconciling and Stalled to what Ensure returned: an
// error first, then what is waited for, then the health of the children.
func Report(conditions status.Editor, state State, err error) {
	var conflict *OwnershipConflictError
	var refused *RefusedError
	failed, progressing := state.unhealthy()
	switch {
	case errors.As(err, &conflict):
		conditions.MarkStalled(childv1alpha1.ReasonOwnershipConflict, oneLine(err.Error()))
	case errors.As(err, &refused) && controller.IsTerminal(err):
		conditions.MarkStalled(childv1alpha1.ReasonRefused, oneLine(err.Error()))
	case err != nil:
		conditions.MarkReconciling(childv1alpha1.ReasonApplyFailed, oneLine(err.Error()))
	case len(state.Waiting) > 0:
		conditions.MarkReconciling(childv1alpha1.ReasonWaitingForDeletion, "Waiting: "+strings.Join(state.Waiting, "; "))
	case len(failed) > 0:
		conditions.MarkStalled(childv1alpha1.ReasonUnhealthy, strings.Join(failed, "; "))
	case len(progressing) > 0:
		conditions.MarkReconciling(childv1alpha1.ReasonProgressing, strings.Join(progressing, "; "))
	default:
		conditions.MarkReady(childv1alpha1.ReasonHealthy, fmt.Sprintf("All %d children are as desired and healthy", len(state.Children)))
	}
}

// unhealthy describes the children that failed and those that are not healthy yet.
func (s State) unhealthy() (failed, progressing []string) {
	for i, child := range s.Children {
		text := fmt.Sprintf("%s %q: %s", s.kinds[i], child.Name, oneLine(child.Health.Message))
		switch child.Health.Status {
		case kstatus.CurrentStatus:
		case kstatus.FailedStatus:
			failed = append(failed, text)
		default:
			progressing = append(progressing, text)
		}
	}
	return failed, progressing
}

// Events returns the event that a correction is worth which the status did not tell of
// before.
func Events(before, after childv1alpha1.ChildrenStatus) []event.Event {
	is := after.LastCorrection
	if is == nil || before.LastCorrection != nil && before.LastCorrection.Time.Equal(&is.Time) {
		return nil
	}
	names := make([]string, len(is.Children))
	for i, name := range is.Children {
		names[i] = string(name)
	}
	return []event.Event{{
		Type: corev1.EventTypeNormal, Reason: childv1alpha1.ReasonDriftCorrected, Action: "Reconcile",
		Note: "Restored " + strings.Join(names, ", ") + " after a change by others",
	}}
}
