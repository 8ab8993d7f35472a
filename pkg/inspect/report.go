// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/images"
)

// Report is the operator's report about itself on the Lease of its leader.
type Report struct {
	apimeta.OperatorReport

	// Leader is the identity of the leader; empty without a leader.
	Leader string
	// Renewed is the time of the last renewal of the lease, and Duration the time after which a
	// lease without renewal is free.
	Renewed  time.Time
	Duration time.Duration
}

// Running reports whether a leader holds the lease at a time.
func (r Report) Running(now time.Time) bool {
	return r.Leader != "" && now.Before(r.Renewed.Add(r.Duration))
}

// serves reports whether the operator reports a kind.
func (r Report) serves(resource schema.GroupResource, kind schema.GroupKind) bool {
	return slices.Contains(r.Resources, resource.String()) || slices.Contains(r.Kinds, kind.String())
}

// Report returns the operator's report. It reads the Lease once. The error comes from the API
// server: most users of a single namespace may not read the Lease.
func (c *Cluster) Report(ctx context.Context) (Report, error) { return c.report(ctx) }

func (c *Cluster) readReport(ctx context.Context) (Report, error) {
	lease, err := c.Kubernetes.CoordinationV1().Leases(c.Operator.Namespace).Get(ctx, c.Operator.Name, metav1.GetOptions{})
	if err != nil {
		return Report{}, err
	}
	var report Report
	if holder := lease.Spec.HolderIdentity; holder != nil {
		report.Leader = *holder
	}
	if renewed := lease.Spec.RenewTime; renewed != nil {
		report.Renewed = renewed.Time
	}
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil {
		report.Duration = time.Duration(*seconds) * time.Second
	}
	text, ok := lease.Annotations[apimeta.AnnotationReport]
	if !ok {
		return report, nil
	}
	if err := json.Unmarshal([]byte(text), &report.OperatorReport); err != nil {
		return report, fmt.Errorf("annotation %s of Lease %s: %w", apimeta.AnnotationReport, c.Operator, err)
	}
	return report, nil
}

// images returns where the operator's images are pulled from. Users who may not read the report get
// the images as the operator names them.
func (c *Cluster) images(ctx context.Context) images.Table {
	report, _ := c.Report(ctx)
	table, _ := images.Parse("", report.Images)
	return table
}
