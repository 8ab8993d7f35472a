// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/pkg/message"
)

// besideChange separates the cause of a failed change from the cause of the failed rollback.
const besideChange = "; the rollback failed, too: "

// failedChange returns the reason and the cause of the failed change that a rollback is to undo. They
// are empty if the status does not have them.
func (s *subject) failedChange() (reason, cause string) {
	failed := meta.FindStatusCondition(s.status.Conditions, releasev1alpha1.ConditionFailed)
	if failed == nil || !s.attemptFailed() {
		return "", ""
	}
	cause, _, both := strings.Cut(failed.Message, besideChange)
	if storedFailures(*s.status).Action == releasev1alpha1.HistoryRollback && !both {
		return "", "" // The status names the failed rollback alone.
	}
	return failed.Reason, message.Truncate(cause, status.MaxMessageBytes/2) // The rollback's cause needs room.
}

// besideFailedChange returns the error of a rollback together with the cause of the failed change.
func (s *subject) besideFailedChange(err error) error {
	if _, cause := s.failedChange(); cause != "" {
		return fmt.Errorf("%s%s%w", cause, besideChange, err)
	}
	return err
}

// endRollbackFailure removes the cause of a failed rollback from Failed.
func (s *subject) endRollbackFailure() {
	if reason, cause := s.failedChange(); cause != "" {
		s.Conditions().Set(releasev1alpha1.ConditionFailed, metav1.ConditionTrue, reason, cause)
		s.setFailedAction(releasev1alpha1.HistoryUpgrade)
	}
}
