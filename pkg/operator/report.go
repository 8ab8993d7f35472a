// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
)

// reportOf returns the report of the leader, as JSON.
func reportOf(version string, images map[string]string, kinds []Kind) (string, error) {
	report := apimeta.OperatorReport{Version: version, Images: images}
	for _, kind := range kinds {
		if len(kind.Resources) > 0 {
			report.Resources = append(report.Resources, kind.Resources[0].GroupResource().String())
		}
	}
	slices.Sort(report.Resources)
	text, err := json.Marshal(report)
	if err != nil {
		return "", fmt.Errorf("report of the operator: %w", err)
	}
	return string(text), nil
}

// reportingLeases writes the report of the leader on the Lease with each write of the Lease, so
// that the report costs no request.
type reportingLeases struct {
	coordinationv1client.LeasesGetter

	report string
}

// Leases implements [coordinationv1client.LeasesGetter].
func (r reportingLeases) Leases(namespace string) coordinationv1client.LeaseInterface {
	return reportingLease{r.LeasesGetter.Leases(namespace), r.report}
}

type reportingLease struct {
	coordinationv1client.LeaseInterface

	report string
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
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, apimeta.AnnotationReport, r.report)
	return lease
}
