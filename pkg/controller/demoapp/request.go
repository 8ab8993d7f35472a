// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"fmt"
	"sync"
	"unicode/utf8"

	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/event"
	"github.com/example/demoapp-controller/pkg/helm"
)

// maxRequestLength is the limit of the status for the value that it repeats, in
// characters.
const maxRequestLength = 256

// observeRequest reads from the annotations what a user asks for. It is asked
// for as long as the status does not repeat the value.
func (c *Controller) observeRequest(p *pass) {
	requestedAt, ok := p.app.Annotations[releasev1alpha1.AnnotationRequestedAt]
	if !ok {
		c.ignored.forget(p.key())
		return
	}
	if problem := requestProblem(requestedAt); problem != "" {
		if c.ignored.note(p.key(), requestedAt) {
			event.Emit(c.recorder, p.app, event.Warning("RequestIgnored", "Reconcile",
				fmt.Sprintf("Annotation %s is ignored: %s", releasev1alpha1.AnnotationRequestedAt, problem)))
		}
		return
	}
	c.ignored.forget(p.key())
	p.requested = requestedAt != p.app.Status.LastHandledRequestedAt
	if forceAt := p.app.Annotations[releasev1alpha1.AnnotationForceAt]; forceAt == requestedAt && forceAt != p.app.Status.LastHandledForceAt {
		p.forceAt = forceAt
	}
}

// requestProblem says why the value of a request cannot be acted on, which
// would have to be repeated in the status; nothing when it can.
func requestProblem(value string) string {
	switch length := utf8.RuneCountInString(value); {
	case length == 0:
		return "it has no value; use the time, for example"
	case length > maxRequestLength:
		return fmt.Sprintf("its value has %d characters; it may have %d", length, maxRequestLength)
	default:
		return ""
	}
}

// answerRequest repeats the value of the request, whatever came of the pass: it
// was made. One that could not even begin is made again.
func (p *pass) answerRequest(err error) {
	if p.requested && !couldNotBegin(err) {
		p.app.Status.LastHandledRequestedAt = p.app.Annotations[releasev1alpha1.AnnotationRequestedAt]
	}
}

// answerForce repeats the value by which an upgrade was asked for, when the
// action was one that has come to its end. One that is tried again is not
// answered yet.
func (p *pass) answerForce(action helm.Action) {
	switch action {
	case helm.ActionInstall, helm.ActionUpgrade, helm.ActionRollback:
	case helm.ActionNone, helm.ActionReapply, helm.ActionRepair, helm.ActionWait, helm.ActionRefuse:
		return
	}
	if p.forceAt == "" {
		return
	}
	p.app.Status.LastHandledForceAt = p.forceAt
	p.forceAt = ""
}

// ignoredRequests remembers which values cannot be acted on, so that each is
// told of once.
type ignoredRequests struct {
	mu   sync.Mutex
	last map[cache.ObjectName]string
}

// note remembers a value and reports whether it is another one than the last.
func (r *ignoredRequests) note(key cache.ObjectName, value string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last[key]; ok && last == value {
		return false
	}
	if r.last == nil {
		r.last = map[cache.ObjectName]string{}
	}
	r.last[key] = value
	return true
}

func (r *ignoredRequests) forget(key cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, key)
}
