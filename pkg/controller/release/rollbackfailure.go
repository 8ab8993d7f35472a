// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/pkg/message"
)

// failedChange returns the reason and the cause of the failed change that a rollback is to undo. They
// are empty if the status does not have them.
func (s *subject) failedChange() (reason, cause string) {
	failed := meta.FindStatusCondition(s.status.Conditions, releasev1alpha1.ConditionFailed)
	if failed == nil || !s.attemptFailed() {
		return "", ""
	}
	cause = failed.Message
	if failures := storedFailures(*s.status); failures.Action == releasev1alpha1.HistoryRollback {
		cause = failures.Change
	}
	if cause == "" {
		return "", "" // The status names the failed rollback alone.
	}
	return failed.Reason, message.Truncate(cause, status.MaxMessageBytes/2) // The rollback's cause needs room.
}

// besideFailedChange returns the error of a rollback together with the cause of the failed change, which
// the status keeps.
func (s *subject) besideFailedChange(err error) error {
	_, cause := s.failedChange()
	if cause == "" {
		return err
	}
	if s.status.Failures == nil {
		s.status.Failures = &releasev1alpha1.FailureCounts{}
	}
	s.status.Failures.Change = cause
	return fmt.Errorf("%s; the rollback failed, too: %w", cause, err)
}

// endRollbackFailure removes the cause of a failed rollback from Failed.
func (s *subject) endRollbackFailure() {
	if reason, cause := s.failedChange(); cause != "" {
		s.Conditions().Set(releasev1alpha1.ConditionFailed, metav1.ConditionTrue, reason, cause)
		s.setFailedAction(releasev1alpha1.HistoryUpgrade)
	}
}
