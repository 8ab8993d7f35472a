// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"maps"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"

	"github.com/example/demoapp-controller/pkg/helm/record"
)

// rollback makes a revision with the manifest of an older one.
func (o *operation) rollback(desired Release, decision Decision) (*Deployed, error) {
	target, abandoned, err := o.prepareRollback(desired, decision)
	if err != nil {
		return nil, err
	}
	o.owner, o.replaces, o.skipsHooks = desired.Owner, desired.RollbackForceReplace, desired.Upgrade.DisableHooks
	cfg, err := o.configuration()
	if err != nil {
		return nil, err
	}
	newest := o.store.newest()
	if err := o.inspect(newest); err != nil {
		return nil, err
	}
	if err := o.trust(newest, target); err != nil {
		return nil, err
	}
	o.store.target = target.Revision
	// Helm begins from the manifest of the failed attempt. So it also removes the objects
	// that only this attempt made.
	o.store.beforeCreate = func(next *releasev1.Release) error {
		return o.adaptRollback(next, target, abandoned)
	}
	o.phase = "rollback"
	rollback := action.NewRollback(cfg)
	rollback.Version = target.Revision
	rollback.Timeout = o.limits.timeout
	rollback.WaitStrategy = kube.HookOnlyStrategy
	rollback.ServerSideApply = "true"
	rollback.ForceConflicts = true
	rollback.CleanupOnFail = true
	rollback.MaxHistory = o.limits.maxHistory
	rollback.DisableHooks, rollback.Description = o.skipsHooks, desired.Upgrade.description(action.MaxDescriptionLength)
	if err := o.fault(rollback.Run(o.release.Name)); err != nil {
		o.failPending(err)
		return o.attempted(), err
	}
	return o.deployed(o.store.made), nil
}

// prepareRollback returns the record to roll back to, and the digest of the inputs to give
// up. A rollback that did not succeed is replaced.
func (o *operation) prepareRollback(desired Release, decision Decision) (target *record.Record, abandoned string, err error) {
	newest := o.store.newest()
	missing := &NoSuchRevisionError{Release: o.release.String(), Revision: decision.To}
	if newest == nil {
		return nil, "", missing
	}
	replaced := decision.Replace
	if replaced == 0 && newest.RolledBackTo != 0 && newest.Unfinished() {
		replaced = newest.Revision
	}
	switch status := common.Status(newest.Status); {
	case !newest.Own && status.IsPending(), status == common.StatusUninstalling:
		return nil, "", &BusyError{Release: o.release.String(), Status: "being changed"}
	case replaced != 0:
		if err := o.replace(replaced); err != nil {
			return nil, "", err
		}
	case status.IsPending():
		o.store.abandoned = newest
		if err := o.store.recordAbandoned(); err != nil {
			return nil, "", err
		}
	}
	history := o.store.history()
	at := slices.IndexFunc(history, func(record *record.Record) bool {
		return record.Revision == decision.To && record.Revision < newest.Revision && record.Good()
	})
	if at < 0 || record.DigestFor(o.store.digests, decision.To) == "" {
		return nil, "", missing
	}
	// If the record was changed, the next decision does not choose it again.
	if _, err := o.store.verified(decision.To); err != nil {
		return nil, "", err
	}
	abandoned, err = givenUp(desired, decision, newest)
	return history[at], abandoned, err
}

// givenUp returns the digest of the inputs that a rollback gives up.
func givenUp(desired Release, decision Decision, newest *record.Record) (string, error) {
	switch {
	case newest.RolledBackTo != 0 && (decision.Replace != 0 || desired.Chart == nil):
		return newest.Abandoned, nil
	case desired.Chart == nil:
		return newest.Inputs, nil
	}
	inputs, err := desired.InputDigest()
	if err != nil {
		return "", &RenderError{Chart: desired.Chart.Name(), Err: err}
	}
	return inputs, nil
}

// trust determines which manifest the known objects have: the manifest of the newest revision, of
// the last success (base), or an unknown one.
func (o *operation) trust(newest, target *record.Record) error {
	if newest.Applied() && newest.Revision == o.baseline.Revision && !o.touched {
		o.trusted = true
		return nil
	}
	if target.Revision != o.baseline.Revision || o.engine.attempts.since(o.release) != o.baseline.Revision {
		return nil
	}
	for _, record := range o.engine.records.History(o.release) {
		if record.Revision > target.Revision && !record.Own {
			return nil
		}
	}
	rls, err := o.store.verified(target.Revision)
	if err != nil {
		return fmt.Errorf("read revision %d: %w", target.Revision, err)
	}
	if o.base, err = o.former(rls.Manifest); err != nil {
		return err
	}
	o.trusted = true
	return nil
}

// adaptRollback prepares the revision of a rollback: with the current owner, and with labels that
// record the restored revision and the given-up inputs.
func (o *operation) adaptRollback(next *releasev1.Release, target *record.Record, abandoned string) error {
	next.Labels = maps.Clone(next.Labels)
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	next.Labels[record.InputsLabel] = record.InputsValue(next.Version, target.Inputs, target.ChartDigest)
	next.Labels[record.RollbackLabel] = record.RollbackValue(next.Version, target.Revision, abandoned)
	// Helm does not request validation in a rollback.
	_, err := o.next(next.Manifest)
	if err == nil {
		err = o.checkHooks(next)
	}
	if err != nil {
		return o.note(fmt.Errorf("revision %d: %w", target.Revision, err))
	}
	if err := o.ownManifest(next, true); err != nil {
		return fmt.Errorf("owner of revision %d: %w", target.Revision, err)
	}
	if err := o.note(o.lookFirst(next)); err != nil {
		return err
	}
	verified, err := o.store.isVerified(o.engine.records.Latest(o.release).Revision)
	if err != nil || verified {
		return err
	}
	return o.removeLeftovers(next, false) // Helm does not know the objects of that revision.
}

// failPending marks the rollback's record as failed if Helm left it pending, as it does
// when a hook fails. If this write fails, the next decision finds the record pending.
func (o *operation) failPending(cause error) {
	made := o.store.made
	if made == nil || !made.Info.Status.IsPending() {
		return
	}
	newest := o.engine.records.Latest(o.release)
	if newest == nil || newest.Revision != made.Version {
		return
	}
	made.SetStatus(common.StatusFailed, fmt.Sprintf("Rollback %q failed: %s", o.release.Name, cause))
	_ = o.store.Update(newest.Secret.Name, made) // See above.
}
