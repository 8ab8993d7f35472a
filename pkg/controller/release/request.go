// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"unicode/utf8"

	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/helm"
)

// maxRequestLength is the maximum length, in characters, of a request value. The status
// repeats the value.
const maxRequestLength = 256

// observeRequest reads a user's request from the annotations: a full pass and, with
// forceAt, an upgrade. The request is pending until the status repeats the value.
func (l *Lifecycle) observeRequest(ctx context.Context, s *subject, key cache.ObjectName) (requested bool, forceAt string) {
	annotations := s.object.GetAnnotations()
	requestedAt, ok := annotations[releasev1alpha1.AnnotationRequestedAt]
	if !ok {
		l.ignored.Forget(key)
		return false, ""
	}
	if problem := requestProblem(requestedAt); problem != "" {
		if last, ok := l.ignored.Get(key); !ok || last != requestedAt {
			l.ignored.Set(key, requestedAt) // Each value has one event.
			event.Emit(ctx, l.recorder, s.object, event.Warning("RequestIgnored", "Reconcile",
				fmt.Sprintf("Annotation %s is ignored: %s", releasev1alpha1.AnnotationRequestedAt, problem)))
		}
		return false, ""
	}
	l.ignored.Forget(key)
	if at := annotations[releasev1alpha1.AnnotationForceAt]; at == requestedAt && at != s.status.LastHandledForceAt {
		forceAt = at
	}
	return requestedAt != s.status.LastHandledRequestedAt, forceAt
}

// requestProblem returns why the value of a request is invalid; empty if it is valid.
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

// answerForce copies the value of a requested upgrade to the status if the action has
// ended. An action that is retried has not ended before the retries are exhausted.
func answerForce(s *releasev1alpha1.ReleaseStatus, f Facts, action helm.Action) {
	switch action {
	case helm.ActionInstall, helm.ActionUpgrade, helm.ActionRollback:
		if f.ForceAt != "" {
			s.LastHandledForceAt = f.ForceAt
		}
	case helm.ActionNone, helm.ActionReapply, helm.ActionRepair, helm.ActionWait, helm.ActionRefuse:
	}
}
