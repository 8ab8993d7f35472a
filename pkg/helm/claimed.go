// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"helm.sh/helm/v4/pkg/kube"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	pathsegment "k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of what a record that is not verified may claim.
const (
	maxClaimedBytes   = 1 << 20
	maxClaimedNodes   = 50_000
	maxClaimedObjects = 1_000
)

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

// removeClaimed deletes those of the objects that have the release's marks. It goes on
// where the API server refuses to show or to delete one.
func (o *operation) removeClaimed(claimed kube.ResourceList) error {
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

// isObjectName reports whether the name can be part of the path of a request.
func isObjectName(name string) bool {
	return name != "" && len(name) <= 253 && len(pathsegment.IsPathSegmentName(name)) == 0
}
