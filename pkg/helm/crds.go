// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"

	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
)

// buildCRDs builds one of the files under crds/. A CRD of a version that the API
// server does not serve cannot be created by trying again. A missing kind of another
// API group may still appear.
func (o *operation) buildCRDs(manifest string) (kube.ResourceList, error) {
	list, err := o.build(manifest)
	var unserved *meta.NoKindMatchError
	if !errors.As(err, &unserved) {
		return list, err
	}
	err = fmt.Errorf("crds/: %w", err)
	if unserved.GroupKind == crdKind {
		err = fmt.Errorf("%w: convert the file to a version of %s that the API server serves", err, crdKind.Group)
		return nil, &RenderError{Chart: o.installing, Err: err}
	}
	return nil, err
}
