// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	pathsegment "k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
)

// Limits of what a record that is not verified may claim.
const (
	maxClaimedBytes   = 1 << 20
	maxClaimedNodes   = 50_000
	maxClaimedObjects = 1_000
)

// removeLeftovers removes objects of earlier revisions that the next one does
// not have: of attempts that failed or were cut off since the deployed revision,
// and, when the release goes as a whole, of that one as well. It comes before
// the records that tell of them change. What a record lists that is not verified is
// removed as well, as far as it has the release's marks: Helm does not see it.
func (o *operation) removeLeftovers(next *releasev1.Release, whole bool) error {
	history := o.engine.records.history(o.release)
	if len(history) == 0 {
		return nil
	}
	if newest := history[len(history)-1]; common.Status(newest.Status) == common.StatusDeployed {
		if verified, err := o.store.isVerified(newest.Revision); verified || err != nil {
			return err
		}
	}
	kept, err := o.former(next.Manifest)
	if err != nil {
		return err
	}
	leftovers, err := o.inventoried()
	if err != nil {
		return err
	}
	var claimed kube.ResourceList
	for _, record := range history {
		status := common.Status(record.Status)
		if status != common.StatusDeployed && status != common.StatusFailed && !status.IsPending() {
			continue
		}
		rls, err := o.store.verified(record.Revision)
		if errors.Is(err, errUnverified) {
			claimed = append(claimed, o.claimedBy(o.store.unverified[record.Revision])...)
			continue
		}
		if err != nil {
			return fmt.Errorf("read revision %d: %w", record.Revision, err)
		}
		made, err := o.former(rls.Manifest)
		if err != nil {
			o.logger.Warn("Cannot tell what a revision made", slog.Int("revision", record.Revision), slog.Any("error", shortened(err)))
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
	for _, info := range leftovers.Difference(kept) {
		if err := o.note(o.remove(info, metav1.DeletePropagationBackground)); err != nil {
			return err
		}
	}
	return o.note(o.removeClaimed(claimed.Difference(kept)))
}

// claimedBy are the objects that a record names which is not verified, as far as they
// can be looked for: whoever wrote the record must not keep the release from being
// upgraded or uninstalled. Nothing of their content is used.
func (o *operation) claimedBy(rls *releasev1.Release) kube.ResourceList {
	if rls == nil || len(rls.Manifest) > maxClaimedBytes || nodesAtMost([]byte(rls.Manifest)) > maxClaimedNodes {
		return nil
	}
	documents, err := parseManifest(rls.Manifest)
	if err != nil {
		return nil
	}
	var list, valid kube.ResourceList
	for _, document := range documents {
		for _, object := range document.objects {
			if len(list) < maxClaimedObjects {
				_ = o.flatten(object, &list) // What is out of scope, or not served, is none of the release's.
			}
		}
	}
	for _, info := range list {
		if isObjectName(info.Name) {
			valid.Append(info)
		}
	}
	return valid
}

// removeClaimed deletes those of the objects that have the release's marks, in the order
// of Helm. It goes on where the API server refuses to show or to delete one.
func (o *operation) removeClaimed(claimed kube.ResourceList) error {
	slices.SortStableFunc(claimed, func(a, b *resource.Info) int { return cmp.Compare(uninstallRank(a), uninstallRank(b)) })
	for _, info := range claimed {
		err := o.remove(info, metav1.DeletePropagationBackground)
		var answer apierrors.APIStatus
		if errors.As(err, &answer) && answer.Status().Code < http.StatusInternalServerError && !apierrors.IsTooManyRequests(err) {
			o.logger.Warn("Left alone an object that a changed record names", slog.Any("error", shortened(err)))
			continue
		}
		if err != nil {
			return fmt.Errorf("remove what a changed record names: %w", err)
		}
	}
	return nil
}

// uninstallRank is the place of an object's kind in the order in which Helm uninstalls.
// Other kinds come last.
func uninstallRank(info *resource.Info) int {
	rank := slices.Index(releaseutil.UninstallOrder, info.Mapping.GroupVersionKind.Kind)
	if rank < 0 {
		return len(releaseutil.UninstallOrder)
	}
	return rank
}

// isObjectName reports whether the name can be part of the path of a request.
func isObjectName(name string) bool {
	return name != "" && len(name) <= 253 && len(pathsegment.IsPathSegmentName(name)) == 0
}
