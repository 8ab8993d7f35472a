// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"k8s.io/client-go/tools/cache"
)

func TestHolder(t *testing.T) {
	tests := map[string]struct {
		metadata string
		want     string
	}{
		"no owner and no managers": {"", "another client"},
		"another release": {
			"annotations: {meta.helm.sh/release-name: other, meta.helm.sh/release-namespace: space}", "the Helm release space/other",
		},
		"another release takes precedence over an owner": {
			`annotations: {meta.helm.sh/release-name: other, meta.helm.sh/release-namespace: space},
			 ownerReferences: [{apiVersion: v1, kind: DemoApp, name: app, uid: u, controller: true}]`, "the Helm release space/other",
		},
		"an owner takes precedence over annotations of the same release": {
			`annotations: {meta.helm.sh/release-name: web, meta.helm.sh/release-namespace: default},
			 ownerReferences: [{apiVersion: v1, kind: Site, name: app, uid: u, controller: true}]`, `Site "app"`,
		},
		"an owner": {
			"ownerReferences: [{apiVersion: v1, kind: DemoApp, name: app, uid: u, controller: true}]", `DemoApp "app"`,
		},
		"an owner that is not the controller": {
			"ownerReferences: [{apiVersion: v1, kind: DemoApp, name: app, uid: u}]", "another client",
		},
		"field managers without duplicates": {
			`managedFields: [{manager: kubectl, operation: Apply}, {manager: kubectl, operation: Update}, {manager: argocd}, {manager: kubelet, subresource: status}]`,
			"another client (field managers: kubectl, argocd)",
		},
	}
	o := &operation{release: cache.ObjectName{Namespace: "default", Name: "web"}}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			manifest := "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, " + tc.metadata + "}}"
			if got := o.holder(object(t, manifest)); got != tc.want {
				t.Errorf("holder = %q, want %q", got, tc.want)
			}
		})
	}
}
