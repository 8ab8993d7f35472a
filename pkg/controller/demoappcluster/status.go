// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/status"
	demoac "github.com/example/demoapp-controller/pkg/generated/applyconfiguration/demo/v1alpha1"
)

const (
	// statusInterval is the shortest time between two writes of a status. While
	// hundreds of apps become ready, each of them would be worth one.
	statusInterval = time.Second
	// maxNamed is how many apps a message names.
	maxNamed = 3
	// maxNote is the limit of an event's note, in bytes.
	maxNote = 1024
)

// applyOptions writes the status as the only owner of its fields.
var applyOptions = metav1.ApplyOptions{FieldManager: fieldManager, Force: true}

// pace keeps the writes of a status apart.
type pace struct {
	mu   sync.Mutex
	last map[cache.ObjectName]statusWrite
}

type statusWrite struct {
	uid types.UID
	at  time.Time
}

// wait is how long the status of a pass has to wait; 0 when it may be written, or
// when there is nothing to write.
func (w *pace) wait(p *pass) time.Duration {
	if apiequality.Semantic.DeepEqual(p.observed.Status, p.cluster.Status) {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.last[keyOf(p.cluster)]
	if !ok || last.uid != p.cluster.UID {
		return 0
	}
	return statusInterval - p.now.Sub(last.at)
}

func (w *pace) wrote(p *pass) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[cache.ObjectName]statusWrite{}
	}
	w.last[keyOf(p.cluster)] = statusWrite{uid: p.cluster.UID, at: p.now}
}

func (w *pace) forget(key cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, key)
}

// reportUnknownNodes says that the nodes are not known. While they are only being
// listed, there is nothing to say.
func reportUnknownNodes(p *pass, failure error) {
	if failure != nil {
		p.conditions().MarkReconciling(v1alpha1.ReasonObserveFailed, "The nodes cannot be listed: "+failure.Error())
	}
}

// reportFailure says why the apps could not be written, and returns the error as
// it may be logged. What is invalid stays so until the spec changes.
func reportFailure(p *pass, err error) error {
	count(p)
	err = &redactedError{err: err, secret: p.cluster.Spec.Template.Spec.APIKey}
	if isInvalid(err) {
		p.conditions().MarkStalled(v1alpha1.ReasonRefused, err.Error())
		p.cluster.Status.ObservedGeneration = p.cluster.Generation
		return controller.Terminal(err)
	}
	p.conditions().MarkReconciling(v1alpha1.ReasonRollingOut, err.Error())
	return err
}

// isInvalid reports whether the API server will never take what it was sent: each
// of several errors says so.
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

// redactedError is an error whose text does not show a secret, which an API server
// or an admission webhook may have quoted.
type redactedError struct {
	err    error
	secret string
}

// Error implements error.
func (e *redactedError) Error() string {
	text := strings.ReplaceAll(e.err.Error(), "\n", "; ")
	if e.secret == "" {
		return text
	}
	for _, form := range []string{e.secret, strings.Trim(fmt.Sprintf("%q", e.secret), `"`)} {
		text = strings.ReplaceAll(text, form, "[redacted]")
	}
	return text
}

// Unwrap returns the error as it was.
func (e *redactedError) Unwrap() error { return e.err }

// count fills in the numbers.
func count(p *pass) {
	s := &p.cluster.Status
	s.Desired, s.Current, s.Updated, s.Ready, s.Failed = 0, 0, 0, 0, 0
	for _, slot := range p.slots {
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
		if troubleOf(slot.app).failed {
			s.Failed++
		}
	}
}

// trouble is why an app is not ready.
type trouble struct {
	// failed says that its last attempt failed or that it is stalled; stalled that
	// a person must act.
	failed, stalled bool
	reason          string
}

func troubleOf(app *v1alpha1.DemoApp) trouble {
	if isReady(app) {
		return trouble{}
	}
	t := trouble{reason: v1alpha1.ReasonProgressing, stalled: isTrue(app, v1alpha1.ConditionStalled)}
	t.failed = t.stalled || isTrue(app, v1alpha1.ConditionFailed)
	ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.ObservedGeneration == app.Generation {
		t.reason = ready.Reason
	}
	return t
}

// findings is what keeps a DemoAppCluster from being ready.
type findings struct {
	// done is how many apps are up to date and ready.
	done int
	// taken, stalled and waiting name the apps that exist for somebody else, that
	// a person must look at, and that are on their way. Outdated ones whose turn
	// has not come are counted only.
	taken, stalled, waiting []string
	queued                  int
}

// find sorts the slots after a pass.
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
		case s.state == stateUpdated && troubleOf(s.app).stalled:
			f.stalled = append(f.stalled, fmt.Sprintf("%s (%s)", name, troubleOf(s.app).reason))
		default:
			f.waiting = append(f.waiting, fmt.Sprintf("%s (%s)", name, troubleOf(s.app).reason))
		}
	}
	return f
}

// summarize turns the end of a pass without errors into status.
func summarize(p *pass) {
	count(p)
	p.cluster.Status.ObservedGeneration = p.cluster.Generation
	f := find(p.slots)
	moving := len(f.waiting) > 0 || len(p.extra) > 0
	blocked := len(f.taken) > 0 || len(f.stalled) > 0
	switch {
	case !moving && !blocked && f.queued == 0:
		p.conditions().MarkReady(v1alpha1.ReasonAllReady, messageWhenReady(len(p.slots)))
	case !moving && blocked:
		p.conditions().MarkStalled(reasonOf(f), f.message(len(p.slots), len(p.extra)))
	default:
		p.conditions().MarkReconciling(reasonOf(f), f.message(len(p.slots), len(p.extra)))
	}
}

func messageWhenReady(count int) string {
	if count == 0 {
		return "No node matches, so there is no app"
	}
	return fmt.Sprintf("%d of %d apps are up to date and ready", count, count)
}

// reasonOf is the most telling reason: what a person must see to comes first.
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

func (f findings) message(desired, extra int) string {
	parts := []string{fmt.Sprintf("%d of %d apps are up to date and ready", f.done, desired)}
	if len(f.taken) > 0 {
		parts = append(parts, "of somebody else is "+named(f.taken))
	}
	if len(f.stalled) > 0 {
		parts = append(parts, "help is needed by "+named(f.stalled))
	}
	if len(f.waiting) > 0 {
		parts = append(parts, "waiting for "+named(f.waiting))
	}
	if f.queued > 0 {
		parts = append(parts, fmt.Sprintf("%d wait for their turn to be updated", f.queued))
	}
	if extra > 0 {
		parts = append(parts, fmt.Sprintf("%d without a node are being deleted", extra))
	}
	return strings.Join(parts, "; ")
}

// named lists the first few names.
func named(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

// event is one event as the API server takes it.
type event struct{ eventType, reason, note string }

// transition tells of a reason to be ready, or not to be, that is new. That work
// has begun is none: the apps have events of their own.
func transition(before, after v1alpha1.DemoAppClusterStatus) (event, bool) {
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	if is == nil || is.Reason == v1alpha1.ReasonRollingOut {
		return event{}, false
	}
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady)
	if was != nil && was.Reason == is.Reason {
		return event{}, false
	}
	note := is.Message
	for len(note) > maxNote || !utf8.ValidString(note) {
		note = note[:min(len(note)-1, maxNote)]
	}
	if is.Status == metav1.ConditionTrue {
		return event{corev1.EventTypeNormal, is.Reason, note}, true
	}
	return event{corev1.EventTypeWarning, is.Reason, note}, true
}

// statusConfiguration is the whole status as it is applied. The UID keeps it from
// a DemoAppCluster of the same name that was made in the meantime.
func statusConfiguration(cluster *v1alpha1.DemoAppCluster) *demoac.DemoAppClusterApplyConfiguration {
	s := cluster.Status
	return demoac.DemoAppCluster(cluster.Name, cluster.Namespace).WithUID(cluster.UID).WithStatus(demoac.DemoAppClusterStatus().
		WithObservedGeneration(s.ObservedGeneration).
		WithDesired(s.Desired).WithCurrent(s.Current).WithUpdated(s.Updated).WithReady(s.Ready).WithFailed(s.Failed).
		WithConditions(status.ApplyConfigurations(s.Conditions)...))
}
