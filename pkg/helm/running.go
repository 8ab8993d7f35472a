// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"

	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// actionLook names a look at a release before its takeover, in logs and metrics.
const actionLook Action = "Look"

// Running returns the deployed revision of a release of which the caller has no baseline, such as the
// revision of another operator before its takeover. It returns nil if the newest record does not name the
// owner. objects has the health of the first workload of the revision. Running changes nothing.
// If there is such a revision, Running reads its record and its workloads.
func (e *Engine) Running(ctx context.Context, release Release) (running *Deployed, objects []ObjectHealth, err error) {
	var deployed, newest *record.Record
	for _, revision := range e.records.History(release.Key()) {
		newest = revision
		if common.Status(revision.Status) == common.StatusDeployed {
			deployed = revision
		}
	}
	owner := record.OwnerOf(release.Owner)
	if deployed == nil || owner.UID == "" || newest.OwnerUID() != owner.UID {
		return nil, nil, nil
	}
	defer e.locks.lock(release.Key())()
	_, err = e.measured(ctx, release, Decision{Action: actionLook}, Baseline{}, func(o *operation) (*Deployed, error) { //nolint:contextcheck // The operation carries its own context, which outlives the caller's.
		var err error
		running, objects, err = o.running(deployed.Revision)
		return nil, err
	})
	return running, objects, err
}

// running reads a revision and the health of its first workload. The result is nil if the record cannot be
// decoded.
func (o *operation) running(revision int) (*Deployed, []ObjectHealth, error) {
	rls, _, err := o.store.read(revision)
	if err != nil || rls == nil {
		return nil, nil, err
	}
	running := &Deployed{Revision: revision}
	if rls.Chart != nil && rls.Chart.Metadata != nil {
		running.Chart, running.ChartVersion = rls.Chart.Metadata.Name, rls.Chart.Metadata.Version
	}
	objects, err := o.healthOfWorkload(rls)
	return running, objects, err
}

// healthOfWorkload returns the health of the first workload of an unverified revision in the release's
// namespace.
func (o *operation) healthOfWorkload(rls *releasev1.Release) ([]ObjectHealth, error) {
	for _, info := range o.claimedBy(rls) {
		kind := info.Mapping.GroupVersionKind
		if kind.Group != "apps" || info.Namespace != o.release.Namespace {
			continue
		}
		live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", reference(info), err)
		}
		if found := health.Of(live); found.Selector != "" {
			return []ObjectHealth{{Object: reference(info), Health: found}}, nil
		}
	}
	return nil, nil
}
