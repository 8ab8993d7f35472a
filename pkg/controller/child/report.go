// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/pkg/message"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// Pass is the part of kind.Pass that Report needs.
type Pass interface {
	Conditions() status.Editor
	RequeueAfter(d time.Duration)
}

// Report sets the conditions Ready, Reconciling and Stalled from the result of Ensure. It schedules
// the next pass if no event triggers one.
func Report(p Pass, state State, err error) {
	RequeueAfter(p, state)
	Judge(state, err).Mark(p.Conditions())
}

// RequeueAfter schedules the next pass if no event triggers one.
func RequeueAfter(p Pass, state State) {
	if state.RetryAfter > 0 {
		p.RequeueAfter(state.RetryAfter)
	}
}

// Verdict summarizes the state of children.
type Verdict struct {
	// Health is Current (desired state reached, and healthy), InProgress or Failed.
	Health kstatus.Status
	// Reason and Message are for the condition Ready.
	Reason, Message string
}

// Mark sets the conditions Ready, Reconciling and Stalled.
func (v Verdict) Mark(conditions status.Editor) {
	switch v.Health {
	case kstatus.CurrentStatus:
		conditions.MarkReady(v.Reason, v.Message)
	case kstatus.FailedStatus:
		conditions.MarkStalled(v.Reason, v.Message)
	default:
		conditions.MarkReconciling(v.Reason, v.Message)
	}
}

// Judge returns the verdict on the result of Ensure. An error has precedence, then children that
// wait for a deletion, then children with repeated drift, and then the health of the children.
func Judge(state State, err error) Verdict {
	var conflict *OwnershipConflictError
	var refused *RefusedError
	failed, progressing := state.unhealthy()
	switch {
	case errors.As(err, &conflict):
		return Verdict{kstatus.FailedStatus, apimeta.ReasonOwnershipConflict, oneLine(err)}
	case errors.As(err, &refused) && controller.IsTerminal(err):
		return Verdict{kstatus.FailedStatus, apimeta.ReasonRefused, oneLine(err)}
	case err != nil:
		return Verdict{kstatus.InProgressStatus, childv1alpha1.ReasonApplyFailed, oneLine(err)}
	case len(state.Waiting) > 0:
		return Verdict{kstatus.InProgressStatus, childv1alpha1.ReasonWaitingForDeletion, "Waiting: " + strings.Join(state.Waiting, "; ")}
	case len(state.Lost) > 0:
		return Verdict{kstatus.InProgressStatus, childv1alpha1.ReasonKindUnserved, strings.Join(state.Lost, "; ")}
	case len(state.Contested) > 0:
		return Verdict{kstatus.InProgressStatus, apimeta.ReasonRepeatedDrift, strings.Join(state.Contested, "; ")}
	case len(failed) > 0:
		return Verdict{kstatus.FailedStatus, apimeta.ReasonUnhealthy, strings.Join(failed, "; ")}
	case len(progressing) > 0:
		return Verdict{kstatus.InProgressStatus, apimeta.ReasonProgressing, strings.Join(progressing, "; ")}
	default:
		message := fmt.Sprintf("All %d children are as desired and healthy", len(state.Children))
		return Verdict{kstatus.CurrentStatus, apimeta.ReasonHealthy, strings.Join(append([]string{message}, state.Notes...), "; ")}
	}
}

// oneLine returns the text of joined errors in one line, each after a semicolon.
func oneLine(err error) string {
	var parts []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if part := message.OneLine(line); part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}

// VerdictOn returns the verdict on some of the desired children. It leaves out children whose
// kind is not served.
func (s State) VerdictOn(children ...Desired) Verdict {
	var part State
	var errs []error
	var missing []string
	for _, desired := range children {
		of := idOf(desired)
		found := s.problems[of]
		errs = append(errs, found.err)
		if found.waiting != "" {
			part.Waiting = append(part.Waiting, found.waiting)
		}
		if found.lost != "" {
			part.Lost = append(part.Lost, found.lost)
		}
		if found.contested != "" {
			part.Contested = append(part.Contested, found.contested)
		}
		if child := s.Of(of.kind, of.name); child.Name != "" {
			part.Children, part.kinds = append(part.Children, child), append(part.kinds, of.kind)
		} else if !slices.Contains(s.Unserved, of.childName()) {
			missing = append(missing, fmt.Sprintf("%s %q is not applied yet", of.kind, of.name))
		}
	}
	verdict := Judge(part, errors.Join(errs...))
	if verdict.Health == kstatus.CurrentStatus && len(missing) > 0 {
		return Verdict{kstatus.InProgressStatus, apimeta.ReasonProgressing, strings.Join(missing, "; ")}
	}
	return verdict
}

// Cause is a part of the reason why a child failed or was refused, without texts, which change with
// each version of Kubernetes.
type Cause struct {
	// Reason is the reason of the condition of a failed child. It is empty for a refused child.
	Reason string
	// Type and Field are a cause in the API server's answer about a refused child.
	Type  metav1.CauseType
	Field string
}

// CausesOf returns why some of the desired children failed or were refused.
func (s State) CausesOf(children ...Desired) []Cause {
	var causes []Cause
	for _, desired := range children {
		of := idOf(desired)
		for _, cause := range ssa.Causes(s.problems[of].err) {
			causes = append(causes, Cause{Type: cause.Type, Field: cause.Field})
		}
		if found := s.Of(of.kind, of.name).Health; found.Reason != "" {
			causes = append(causes, Cause{Reason: found.Reason})
		}
	}
	return causes
}

// holdProgress is the delay of a status write that reports only progress.
const holdProgress = time.Second

// Hold is for kind.Definition. It returns the delay of a status write that reports only progress of
// the children.
func Hold(written, next []metav1.Condition) time.Duration {
	was, is := meta.FindStatusCondition(written, apimeta.ConditionReady), meta.FindStatusCondition(next, apimeta.ConditionReady)
	if was == nil || is == nil || was.Reason != is.Reason ||
		is.Reason != apimeta.ReasonProgressing && is.Reason != childv1alpha1.ReasonDegraded ||
		was.ObservedGeneration != is.ObservedGeneration {
		return 0
	}
	return holdProgress
}

// unhealthy describes the children that failed and those that are not healthy yet.
func (s State) unhealthy() (failed, progressing []string) {
	for i, child := range s.Children {
		text := fmt.Sprintf("%s %q: %s", s.kinds[i], child.Name, message.OneLine(child.Health.Message))
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

// Events returns the events for the difference between two statuses: the first children, restored
// children, and a change of the status or the reason of the condition Ready.
func Events(before, after childv1alpha1.ChildrenStatus, conditionsBefore, conditionsAfter []metav1.Condition) []event.Event {
	var events []event.Event
	note := func(reason, text string, children []childv1alpha1.ChildName) {
		names := make([]string, len(children))
		for i, name := range children {
			names[i] = string(name)
		}
		events = append(events, event.Event{
			Type: corev1.EventTypeNormal, Reason: reason, Action: "Reconcile", Note: fmt.Sprintf(text, strings.Join(names, ", ")),
		})
	}
	if len(before.Applied) == 0 && len(after.Applied) > 0 {
		var created []childv1alpha1.ChildName
		for _, child := range after.Applied {
			created = append(created, id{child.Kind, child.Name}.childName())
		}
		note(childv1alpha1.ReasonCreated, "Created %s", created)
	}
	is, was := after.LastCorrection, before.LastCorrection
	if is != nil && (was == nil || !was.Time.Equal(&is.Time)) {
		note(childv1alpha1.ReasonDriftCorrected, "Restored %s after a change by others", is.Children)
	}
	if e, ok := event.Transition(conditionsBefore, conditionsAfter); ok {
		events = append(events, e)
	}
	return events
}
