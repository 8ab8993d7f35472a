// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"time"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
)

// secretRetry is the interval at which a missing Secret is read again. A Secret that a user creates
// without a label of the operator is not watched.
const secretRetry = 5 * time.Minute

// Problem is the reason why a spec cannot be applied.
type Problem struct{ Reason, Message string }

// First returns the first problem, or nil.
func First(problems ...*Problem) *Problem {
	for _, p := range problems {
		if p != nil {
			return p
		}
	}
	return nil
}

// Report sets the conditions Ready, Reconciling and Stalled to a problem.
func (p Problem) Report(pass child.Pass) {
	switch p.Reason {
	case childv1alpha1.ReasonWaitingForDeletion:
		pass.Conditions().MarkReconciling(p.Reason, p.Message)
		return
	case databasev1.ReasonCredentialsMissing, databasev1.ReasonCertificateMissing:
		pass.RequeueAfter(secretRetry)
	}
	pass.Conditions().MarkStalled(p.Reason, p.Message)
}
