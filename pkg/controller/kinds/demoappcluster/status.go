// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/message"
	"github.com/example/demoapp-controller/pkg/redact"
)

const (
	// statusInterval is the shortest time between two writes of a status. It merges the
	// writes while hundreds of apps become ready.
	statusInterval = time.Second
	// maxNamed limits how many apps a message names.
	maxNamed = 3
)

// reportUnknownNodes reports why the nodes cannot be listed. The duration of the first
// list is not reported.
func reportUnknownNodes(p *pass, err error) {
	if !controller.IsPending(err) {
		p.Conditions().MarkReconciling(apimeta.ReasonObserveFailed, "The nodes cannot be listed: "+err.Error())
	}
}

// reportFailure reports why the apps could not be written, and returns the redacted
// error. Invalid apps stay invalid until the spec changes.
func reportFailure(p *pass, err error) error {
	err = redact.Error([]string{p.Object.Spec.Template.Spec.APIKey}, err)
	if isInvalid(err) {
		p.Conditions().MarkStalled(apimeta.ReasonRefused, err.Error())
		p.Object.Status.ObservedGeneration = p.Object.Generation
		return controller.Terminal(err)
	}
	p.Conditions().MarkReconciling(v1alpha1.ReasonRollingOut, err.Error())
	return err
}

// isInvalid reports whether all joined errors say that the API server will never accept
// the request.
func isInvalid(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			return !slices.ContainsFunc(joined.Unwrap(), func(branch error) bool { return !isInvalid(branch) })
		}
		if _, ok := err.(apierrors.APIStatus); ok {
			return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
		}
	}
	return false
}

// count sets the counts of the status.
func count(s *v1alpha1.DemoAppClusterStatus, slots []slot) {
	s.Desired, s.Current, s.Updated, s.Ready, s.Failed = 0, 0, 0, 0, 0
	for _, slot := range slots {
		s.Desired++
		if slot.state != stateOutdated && slot.state != stateUpdated {
			continue
		}
		s.Current++
		if slot.state == stateUpdated {
			s.Updated++
		}
		if isReady(slot.app) {
			s.Ready++
		}
		if problemOf(slot.app).failed {
			s.Failed++
		}
	}
}

// problem is why an app is not ready.
type problem struct {
	// failed says that the last attempt failed or that the app is stalled. stalled says
	// that a user must act.
	failed, stalled bool
	reason          string
}

func problemOf(app *v1alpha1.DemoApp) problem {
	if isReady(app) {
		return problem{}
	}
	t := problem{reason: apimeta.ReasonProgressing, stalled: isTrue(app, apimeta.ConditionStalled)}
	t.failed = t.stalled || isTrue(app, releasev1alpha1.ConditionFailed)
	ready := meta.FindStatusCondition(app.Status.Conditions, apimeta.ConditionReady)
	if ready != nil && ready.ObservedGeneration == app.Generation {
		t.reason = ready.Reason
	}
	return t
}

// findings are the reasons why a DemoAppCluster is not ready.
type findings struct {
	// done is the number of apps that are up to date and ready.
	done int
	// taken, stalled and waiting name the apps with another owner, those that need a
	// user, and those in progress. queued is the number of outdated apps that wait for
	// their turn.
	taken, stalled, waiting []string
	queued                  int
	// kept names the apps without a node that stay for the grace period. leaving is the number
	// of those that are being deleted.
	kept    []string
	leaving int
}

// find groups the slots after a pass.
func find(slots []slot) findings {
	var f findings
	for _, s := range slots {
		name := s.desired.Name
		switch {
		case s.state == stateTaken:
			f.taken = append(f.taken, name)
		case s.state == stateAbsent, s.state == stateLeaving:
			f.waiting = append(f.waiting, name)
		case s.state == stateOutdated && isServing(s.app):
			f.queued++
		case isReady(s.app):
			f.done++
		case s.state == stateUpdated && problemOf(s.app).stalled:
			f.stalled = append(f.stalled, fmt.Sprintf("%s (%s)", name, problemOf(s.app).reason))
		default:
			f.waiting = append(f.waiting, fmt.Sprintf("%s (%s)", name, problemOf(s.app).reason))
		}
	}
	return f
}

// summarize writes the status at the end of a pass without errors.
func summarize(p *pass, observed observation) {
	p.Object.Status.ObservedGeneration = p.Object.Generation
	f := find(observed.slots)
	f.kept, f.leaving = keptAndLeaving(observed.extra, p.Object.Status.PendingRemovals)
	moving := len(f.waiting) > 0 || f.leaving > 0
	blocked := len(f.taken) > 0 || len(f.stalled) > 0
	message := f.message(len(observed.slots))
	switch {
	case !moving && !blocked && f.queued == 0:
		p.Conditions().MarkReady(v1alpha1.ReasonAllReady, message)
	case !moving && blocked:
		p.Conditions().MarkStalled(reasonOf(f), message)
	default:
		p.Conditions().MarkReconciling(reasonOf(f), message)
	}
}

// reasonOf returns the most important reason. Reasons that need a user come first.
func reasonOf(f findings) string {
	switch {
	case len(f.taken) > 0:
		return v1alpha1.ReasonNameConflict
	case len(f.stalled) > 0:
		return v1alpha1.ReasonAppsFailed
	default:
		return v1alpha1.ReasonRollingOut
	}
}

func (f findings) message(desired int) string {
	parts := []string{fmt.Sprintf("%d of %d apps are up to date and ready", f.done, desired)}
	if desired == 0 {
		parts[0] = "No node matches"
		if len(f.kept)+f.leaving == 0 {
			parts[0] += ", so there is no app"
		}
	}
	if len(f.taken) > 0 {
		parts = append(parts, "name in use by another owner: "+message.List(f.taken, maxNamed))
	}
	if len(f.stalled) > 0 {
		parts = append(parts, "stalled: "+message.List(f.stalled, maxNamed))
	}
	if len(f.waiting) > 0 {
		parts = append(parts, "waiting for "+message.List(f.waiting, maxNamed))
	}
	if f.queued > 0 {
		parts = append(parts, fmt.Sprintf("%d wait for their turn to be updated", f.queued))
	}
	if len(f.kept) > 0 {
		parts = append(parts, "kept in case the node comes back: "+message.List(f.kept, maxNamed))
	}
	if f.leaving > 0 {
		parts = append(parts, fmt.Sprintf("%d without a node are being deleted", f.leaving))
	}
	return strings.Join(parts, "; ")
}

// transitions returns an event for a new reason of Ready. A rollout that begins emits
// none, because the apps have their own events.
func transitions(before, after *v1alpha1.DemoAppCluster) []event.Event {
	e, ok := event.Transition(before.Status.Conditions, after.Status.Conditions)
	if !ok || e.Reason == v1alpha1.ReasonRollingOut {
		return nil
	}
	was := meta.FindStatusCondition(before.Status.Conditions, apimeta.ConditionReady)
	if was != nil && was.Reason == e.Reason {
		return nil
	}
	return []event.Event{e}
}
