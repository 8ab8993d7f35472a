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
)

// UnhealthyLabel is the label on the record of a revision that was deployed and then marked
// as failed by [Engine.MarkFailed]. Its value is the revision, because Helm copies labels
// to the next revision.
const UnhealthyLabel = "engine.demo.example.com/unhealthy"

// actionMark names the marking of a revision in logs and metrics.
const actionMark Action = "Mark"

// MarkFailed records that a deployed revision failed, for instance because it did not become
// healthy. It sends one request, or none if the revision is not the newest one, is not deployed, or
// was not made by this engine. It uses the namespace, name, owner, chart, service account and
// timeout of the release.
//
// [Decide] still treats the revision as deployed (see [Record.Unhealthy]), so the caller
// decides whether to try again. The revision cannot be the target of a rollback. It stays
// failed when other revisions follow.
func (e *Engine) MarkFailed(ctx context.Context, release Release, baseline Baseline, revision int, description string) error {
	return e.mark(ctx, release, baseline, revision, false, func(rls *releasev1.Release) {
		rls.Labels[UnhealthyLabel] = strconv.Itoa(revision)
		rls.SetStatus(common.StatusFailed, description)
	})
}

// MarkDeployed undoes MarkFailed.
func (e *Engine) MarkDeployed(ctx context.Context, release Release, baseline Baseline, revision int, description string) error {
	return e.mark(ctx, release, baseline, revision, true, func(rls *releasev1.Release) {
		delete(rls.Labels, UnhealthyLabel)
		rls.Labels[InputsLabel] = strings.TrimSuffix(rls.Labels[InputsLabel], failedMark)
		rls.SetStatus(common.StatusDeployed, description)
	})
}

// mark changes the record of the newest revision if this engine made it and it is in the
// expected state.
func (e *Engine) mark(ctx context.Context, release Release, baseline Baseline, revision int, unhealthy bool, change func(*releasev1.Release)) error {
	name := release.Key()
	defer e.locks.lock(name)()
	isMarkable := func(record *Record) bool {
		return record != nil && record.Revision == revision && record.Own && record.Unhealthy == unhealthy &&
			record.applied()
	}
	if !isMarkable(e.records.latest(name)) {
		return nil
	}
	_, err := e.measured(ctx, release, Decision{Action: actionMark}, baseline, func(o *operation) (*Deployed, error) { //nolint:contextcheck // The operation carries its own context, which outlives the caller's.
		record := o.store.newest()
		if !isMarkable(record) {
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
		return nil, o.store.Update(recordSecretName(name.Name, revision), rls)
	})
	return err
}

// applied reports whether the revision was applied as a whole.
func (r *Record) applied() bool {
	return r.Unhealthy || common.Status(r.Status) == common.StatusDeployed
}

// isUnhealthy reports whether the labels belong to a revision that MarkFailed marked.
func isUnhealthy(labels map[string]string, revision int) bool {
	return labels[UnhealthyLabel] == strconv.Itoa(revision)
}
