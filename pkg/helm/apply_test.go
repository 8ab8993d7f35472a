// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/cache"
)

func TestPrepare(t *testing.T) {
	tests := map[string]struct {
		manifest string
		want     string // As the manifest when empty.
	}{
		"stringData becomes data": {
			manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {key: geheim, empty: ''}}",
			want:     "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: Z2VoZWlt, empty: ''}}",
		},
		"stringData comes before data": {
			manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: b2xk, other: b2xk}, stringData: {key: geheim}}",
			want:     "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: Z2VoZWlt, other: b2xk}}",
		},
		"empty stringData": {
			manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {}}",
			want:     "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {}}",
		},
		"only data": {
			manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: Z2VoZWlt}}",
			want:     "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: Z2VoZWlt}}",
		},
		"a Secret of another API group": {
			manifest: "{apiVersion: example.com/v1, kind: Secret, metadata: {name: a}, stringData: {key: geheim}}",
			want:     "{apiVersion: example.com/v1, kind: Secret, metadata: {name: a}, stringData: {key: geheim}}",
		},
		"another kind": {
			manifest: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {key: value}}",
			want:     "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {key: value}}",
		},
		"stringData beside null": {
			manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: null, stringData: {key: geheim}}",
			want:     "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: Z2VoZWlt}}",
		},
		"null in stringData": {
			manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: b2xk}, stringData: {key: null, other: geheim}}",
			want:     "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: '', other: Z2VoZWlt}}",
		},
		"stringData is null":    {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: b2xk}, stringData: null}"},
		"data is null":          {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: null}"},
		"both are null":         {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: null, stringData: null}"},
		"null in data":          {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: null}}"},
		"stringData of numbers": {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {b: b2xk}, stringData: {a: a, key: 1}}"},
		"stringData is no map":  {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: [a]}"},
		"data is no map":        {manifest: "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: x, stringData: {key: a}}"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			given := object(t, tc.manifest)
			before := given.DeepCopy()
			got := prepare(given)
			if diff := cmp.Diff(before, given); diff != "" {
				t.Errorf("the manifest's own object was changed (-before +after):\n%s", diff)
			}
			want := before
			if tc.want != "" {
				want = object(t, tc.want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("prepared (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHolder(t *testing.T) {
	tests := map[string]struct {
		metadata string
		want     string
	}{
		"nobody": {"", "somebody else"},
		"another release": {
			"annotations: {meta.helm.sh/release-name: other, meta.helm.sh/release-namespace: space}", "the Helm release space/other",
		},
		"a release comes before an owner": {
			`annotations: {meta.helm.sh/release-name: other, meta.helm.sh/release-namespace: space},
			 ownerReferences: [{apiVersion: v1, kind: DemoApp, name: app, uid: u, controller: true}]`, "the Helm release space/other",
		},
		"an owner comes before marks of the release itself": {
			`annotations: {meta.helm.sh/release-name: web, meta.helm.sh/release-namespace: default},
			 ownerReferences: [{apiVersion: v1, kind: Site, name: app, uid: u, controller: true}]`, `Site "app"`,
		},
		"an owner": {
			"ownerReferences: [{apiVersion: v1, kind: DemoApp, name: app, uid: u, controller: true}]", `DemoApp "app"`,
		},
		"an owner that is no controller": {
			"ownerReferences: [{apiVersion: v1, kind: DemoApp, name: app, uid: u}]", "somebody else",
		},
		"managers, each once": {
			`managedFields: [{manager: kubectl, operation: Apply}, {manager: kubectl, operation: Update}, {manager: argocd}, {manager: kubelet, subresource: status}]`,
			"somebody else (made with kubectl, argocd)",
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
