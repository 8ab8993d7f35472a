// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"

	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"

	"github.com/example/demoapp-controller/pkg/helm/record"
)

// actionMark names the marking of a revision in logs and metrics.
const actionMark Action = "Mark"

// MarkFailed records that a deployed revision failed, for instance because it did not become
// healthy. It sends one request, or none if the revision is not the newest one, is not deployed, or
// was not made by this engine. It uses the namespace, name, owner, chart, service account and
// timeout of the release.
//
// [Decide] still treats the revision as deployed (see [record.Record.Unhealthy]), so the caller
// decides whether to try again. The revision cannot be the target of a rollback. It stays
// failed when other revisions follow.
func (e *Engine) MarkFailed(ctx context.Context, release Release, baseline Baseline, revision int, description string) error {
	return e.mark(ctx, release, baseline, revision, false, func(rls *releasev1.Release) {
		rls.Labels[record.UnhealthyLabel] = strconv.Itoa(revision)
		rls.SetStatus(common.StatusFailed, description)
	})
}

// MarkDeployed undoes MarkFailed.
func (e *Engine) MarkDeployed(ctx context.Context, release Release, baseline Baseline, revision int, description string) error {
	return e.mark(ctx, release, baseline, revision, true, func(rls *releasev1.Release) {
		delete(rls.Labels, record.UnhealthyLabel)
		rls.Labels[record.InputsLabel] = strings.TrimSuffix(rls.Labels[record.InputsLabel], record.FailedMark)
		rls.SetStatus(common.StatusDeployed, description)
	})
}

// mark changes the record of the newest revision if this engine made it and it is in the
// expected state.
func (e *Engine) mark(ctx context.Context, release Release, baseline Baseline, revision int, unhealthy bool, change func(*releasev1.Release)) error {
	name := release.Key()
	defer e.locks.lock(name)()
	isMarkable := func(newest *record.Record) bool {
		return newest != nil && newest.Revision == revision && newest.Own && newest.Unhealthy == unhealthy &&
			newest.Applied()
	}
	if !isMarkable(e.records.Latest(name)) {
		return nil
	}
	_, err := e.measured(ctx, release, Decision{Action: actionMark}, baseline, func(o *operation) (*Deployed, error) { //nolint:contextcheck // The operation carries its own context, which outlives the caller's.
		newest := o.store.newest()
		if !isMarkable(newest) {
			return nil, nil
		}
		rls, err := o.store.verified(revision)
		if errors.Is(err, errUnverified) {
			return nil, nil // The revision is made again.
		}
		if err != nil {
			return nil, err
		}
		rls.Labels = maps.Clone(rls.Labels)
		change(rls)
		return nil, o.store.Update(record.SecretName(name.Name, revision), rls)
	})
	return err
}
