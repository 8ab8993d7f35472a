// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/example/demoapp-controller/pkg/helm"
)

// installOnly is a chart that sets fields only in the first install. The API server keeps
// serviceAccountName through its alias serviceAccount when an upgrade of Helm 3 removes it.
func installOnly() source {
	return once("{{ if .Release.IsInstall }}tty: true\n      serviceAccountName: app{{ end }}")
}

// once is workload without equal keys.
func once(container string) source {
	chart := workload(container)
	chart["templates/web.yaml"] = bytes.Replace(chart["templates/web.yaml"], []byte("[{name: registry}, {name: registry}]"), []byte("[{name: registry}]"), 1)
	return chart
}

// TestConsent takes releases over that other clients applied as Helm 3 does. The takeover's changes of
// pods and its deletions wait for consent, and nothing is written before.
func TestConsent(t *testing.T) {
	t.Parallel()
	more := func(chart source) source {
		chart = maps.Clone(chart)
		chart["templates/old.yaml"] = []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old}\n")
		return chart
	}
	tests := map[string]struct {
		deployed []source
		desired  source
		want     string
	}{
		"unchanged": {deployed: []source{once("tty: true")}, desired: once("tty: true")},
		"a field that the first install left": {
			deployed: []source{installOnly(), installOnly()}, desired: installOnly(),
			want: "the takeover would change the pods of Deployment NS/web (/spec/template/spec/serviceAccount, /spec/template/spec/serviceAccountName)",
		},
		"equal keys": {
			deployed: []source{twice()}, desired: twice(),
			want: "the takeover would change the pods of Deployment NS/web (/spec/template/spec/containers/0/env, " +
				"/spec/template/spec/containers/0/ports, /spec/template/spec/imagePullSecrets)",
		},
		"an object that the chart no longer has": {
			deployed: []source{more(once("tty: true"))}, desired: once("tty: true"), want: "the takeover would delete ConfigMap NS/old",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newHelmOperator(t, newNamespace(t), "helm-operator")
			for _, chart := range test.deployed {
				if err := o.deploy(t.Context(), chart, nil); err != nil {
					t.Fatal(err)
				}
			}
			e := newEngine(t, o.namespace, everywhere)
			release := e.desired(test.desired, nil)
			release.Adopt, release.Takeover, release.Owner, release.Consents = false, true, &o.owner, nil
			before := o.live(t.Context(), t)

			err := e.pass(t.Context(), release)

			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var needed *helm.ConsentError
			if !errors.As(err, &needed) {
				t.Fatalf("the takeover ended with %v", err)
			}
			if diff := cmp.Diff(strings.ReplaceAll(test.want, "NS", o.namespace), needed.Error()); diff != "" {
				t.Errorf("the hold (-want +got):\n%s", diff)
			}
			assertSame(t, before, o.live(t.Context(), t))
			if newest := newestRelease(t.Context(), t, o.namespace); newest.Version != len(test.deployed) {
				t.Errorf("the newest revision is %d", newest.Version)
			}

			release.Consents = toAll
			if err := e.converge(t.Context(), release); err != nil {
				t.Fatal(err)
			}
			e.assertAsDesired(release)
		})
	}
}
