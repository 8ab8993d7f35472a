// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
)

// maxReportedKinds limits the kinds in a report, because the annotations of an object may have 256 KiB.
const maxReportedKinds = 1000

// report is the report of the leader. It is safe for concurrent use.
type report struct {
	mu       sync.Mutex
	contents apimeta.OperatorReport
	// kinds are the kinds by the registered kind that runs them.
	kinds map[string][]schema.GroupKind
}

// newReport returns a report of the registered kinds.
func newReport(version string, images map[string]string, kinds []Kind) *report {
	r := &report{contents: apimeta.OperatorReport{Version: version, Images: images}, kinds: map[string][]schema.GroupKind{}}
	for _, kind := range kinds {
		if len(kind.Resources) > 0 {
			r.contents.Resources = append(r.contents.Resources, kind.Resources[0].GroupResource().String())
		}
	}
	slices.Sort(r.contents.Resources)
	return r
}

// setKinds replaces the kinds that a registered kind runs.
func (r *report) setKinds(registered string, kinds []schema.GroupKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds[registered] = kinds
	r.contents.Kinds = nil
	for _, kinds := range r.kinds {
		for _, kind := range kinds {
			r.contents.Kinds = append(r.contents.Kinds, kind.String())
		}
	}
	slices.Sort(r.contents.Kinds)
	r.contents.Kinds = r.contents.Kinds[:min(len(r.contents.Kinds), maxReportedKinds)]
}

// text returns the report as JSON.
func (r *report) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, _ := json.Marshal(r.contents) // Strings can always be encoded.
	return string(text)
}

// reportingLeases writes the report of the leader on the Lease with each write of the Lease, so
// that the report costs no request.
type reportingLeases struct {
	coordinationv1client.LeasesGetter

	report *report
}

// Leases implements [coordinationv1client.LeasesGetter].
func (r reportingLeases) Leases(namespace string) coordinationv1client.LeaseInterface {
	return reportingLease{r.LeasesGetter.Leases(namespace), r.report}
}

type reportingLease struct {
	coordinationv1client.LeaseInterface

	report *report
}

// Create implements [coordinationv1client.LeaseInterface].
func (r reportingLease) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return r.LeaseInterface.Create(ctx, r.reported(lease), options)
}

// Update implements [coordinationv1client.LeaseInterface].
func (r reportingLease) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return r.LeaseInterface.Update(ctx, r.reported(lease), options)
}

// reported returns a copy of the Lease with the report.
func (r reportingLease) reported(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, apimeta.AnnotationReport, r.report.text())
	return lease
}
