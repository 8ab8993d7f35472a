// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/expect"
)

// TestMarksOfToolsAreNotInherited: a tool that delivers the owner finds its objects by labels, and may
// prune every object that has them.
func TestMarksOfToolsAreNotInherited(t *testing.T) {
	labels := map[string]string{
		"argocd.argoproj.io/instance": "shop", "app.kubernetes.io/instance": "shop", "kustomize.toolkit.fluxcd.io/name": "shop",
		"objectset.rio.cattle.io/hash": "1", "kapp.k14s.io/app": "1", "applyset.kubernetes.io/part-of": "1", "velero.io/restore-name": "1",
	}

	got := Inherited(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: labels}})

	expect.Equal(t, "inherited labels", map[string]string{}, got)
}
