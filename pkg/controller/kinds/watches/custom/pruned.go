// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"bytes"
	"encoding/json"
	"sync/atomic"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
)

// Pruned has the last written statuses of custom resources whose CRD removes fields
// of the status. Without them, each pass would treat the release as unknown. They are lost with the
// process; one reapply restores them. The zero value is ready to use.
type Pruned struct {
	statuses controller.Memory[prunedStatus]
	noticed  atomic.Bool
}

type prunedStatus struct {
	uid    types.UID
	status Status
}

// Recall gives the pass the status that was last written for its object.
func (m *Pruned) Recall(p *kind.Pass[*Resource]) {
	known, ok := m.statuses.Get(p.Key())
	if !ok || known.uid != p.Object.GetUID() {
		return
	}
	held := !apiequality.Semantic.DeepEqual(p.Observed.Status, p.Object.Status)
	p.Observed = p.Observed.DeepCopy()
	p.Observed.Status = known.status
	if !held {
		p.Object.Status = p.Observed.DeepCopy().Status
	}
}

// Forget drops the status of an object.
func (m *Pruned) Forget(key cache.ObjectName) { m.statuses.Forget(key) }

// Notice keeps the status of a pass if the API server stored it without some of its fields.
// It reports whether it is the first such status. Call it after the status is written.
func (m *Pruned) Notice(p *kind.Pass[*Resource]) (first bool) {
	if sameFields(p.Observed.Status.ReleaseStatus, p.Object.Status.ReleaseStatus) {
		return false
	}
	m.statuses.Set(p.Key(), prunedStatus{p.Object.GetUID(), p.Object.DeepCopy().Status})
	return !m.noticed.Swap(true)
}

// sameFields compares two statuses as the API server stores them, except for the conditions, which
// also belong to other clients.
func sameFields(stored, written releasev1alpha1.ReleaseStatus) bool {
	stored.Conditions, written.Conditions = nil, nil
	a, err1 := json.Marshal(stored)
	b, err2 := json.Marshal(written)
	return err1 == nil && err2 == nil && bytes.Equal(a, b)
}
