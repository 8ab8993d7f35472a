// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

// Limits of the objects that an unverified record may name.
const (
	maxClaimedBytes   = 1 << 20
	maxClaimedNodes   = 50_000
	maxClaimedObjects = 1_000
)

// removeLeftovers removes the objects that leftoverObjects returns. It runs before the records of failed
// attempts change.
func (o *operation) removeLeftovers(next *releasev1.Release, whole bool) error {
	leftovers, claimed, err := o.leftoverObjects(next, whole)
	if err != nil {
		return err
	}
	if _, errs := o.removeAll(leftovers, o.removeInBackground); len(errs) > 0 {
		return o.note(joined(errs))
	}
	return o.note(o.removeClaimed(claimed))
}

// leftoverObjects returns objects that the next revision does not have: objects of attempts that failed
// or were interrupted since the deployed revision. If the whole release is removed, objects of the
// deployed revision are among them. A superseded newest revision counts as an attempt, because the
// revision after it is lost. claimed are objects in an unverified record, because Helm does not see
// that record. They are removed only if they have the release's marks.
func (o *operation) leftoverObjects(next *releasev1.Release, whole bool) (leftovers, claimed kube.ResourceList, err error) {
	history := o.engine.records.History(o.release)
	if len(history) == 0 {
		return nil, nil, nil
	}
	if newest := history[len(history)-1]; common.Status(newest.Status) == common.StatusDeployed {
		if verified, err := o.store.isVerified(newest.Revision); verified || err != nil {
			return nil, nil, err
		}
	}
	kept, err := o.former(next.Manifest)
	if err != nil {
		return nil, nil, err
	}
	if leftovers, err = o.inventoried(); err != nil {
		return nil, nil, err
	}
	for i, record := range history {
		status := common.Status(record.Status)
		newest := i == len(history)-1 && status == common.StatusSuperseded
		uninstalling := status == common.StatusUninstalling
		if !newest && !uninstalling && status != common.StatusDeployed && status != common.StatusFailed && !status.IsPending() {
			continue
		}
		rls, err := o.store.verified(record.Revision)
		if errors.Is(err, errUnverified) {
			claimed = append(claimed, o.claimedBy(o.store.unverified[record.Revision])...)
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read revision %d: %w", record.Revision, err)
		}
		if uninstalling && whole {
			continue // Helm removes the objects of the verified record.
		}
		made, err := o.former(rls.Manifest)
		if err != nil {
			o.logger.Warn("Cannot read the objects of a revision", slog.Int("revision", record.Revision), slog.Any("err", shortened(err)))
			continue
		}
		switch {
		case status != common.StatusDeployed:
			leftovers = append(leftovers, made...)
		case whole:
			leftovers = made
		default:
			leftovers, kept = nil, append(kept, made...)
		}
	}
	return leftovers.Difference(kept), claimed.Difference(kept), nil
}

// claimedBy returns the objects that an unverified record names. It leaves out objects that
// cannot be looked up, so that the author of the record cannot block an upgrade or
// uninstall. Their content is not used.
func (o *operation) claimedBy(rls *releasev1.Release) kube.ResourceList {
	if rls == nil || len(rls.Manifest) > maxClaimedBytes || manifest.NodesAtMost([]byte(rls.Manifest)) > maxClaimedNodes {
		return nil
	}
	documents, err := manifest.Parse(rls.Manifest)
	if err != nil {
		return nil
	}
	var list, valid kube.ResourceList
	for _, document := range documents {
		for _, object := range document.Objects {
			if len(list) < maxClaimedObjects {
				_ = o.flatten(object, o.engine.mapper.MappingInAnyVersion, &list) // Objects that are out of scope or not served do not belong to the release.
			}
		}
	}
	for _, info := range list {
		if manifest.IsName(info.Name) {
			valid.Append(info)
		}
	}
	return valid
}

// removeClaimed removes the objects that have the release's marks, in Helm's order. It
// skips objects that the API server refuses to return or delete.
func (o *operation) removeClaimed(claimed kube.ResourceList) error {
	_, errs := o.removeAll(inUninstallOrder(claimed), func(info *resource.Info) error {
		err := o.removeInBackground(info)
		if isSkipped(err) {
			o.logger.Warn("Skipped an object in an unverified record", slog.Any("err", shortened(err)))
			return nil
		}
		return err
	})
	if len(errs) > 0 {
		return fmt.Errorf("remove objects in an unverified record: %w", joined(errs))
	}
	return nil
}

// isSkipped reports whether the API server refuses to return or delete an object of an unverified record.
func isSkipped(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code < http.StatusInternalServerError && !apierrors.IsTooManyRequests(err)
}
