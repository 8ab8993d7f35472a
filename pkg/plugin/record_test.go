// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// TestChangedRecord: a record that another client has changed after the operator wrote it is named,
// and its content is not compared.
func TestChangedRecord(t *testing.T) {
	t.Parallel()
	const changed = "error: revision 2: its record, Secret sh.helm.release.v1.web.v2, was changed by another client than the operator; " +
		"kubectl demoapp retry lets the operator write a new revision\n"
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {text: b}\n"
	for _, args := range []string{"diff demoapp/web", "diff demoapp/web --set message=c", "history demoapp/web --diff 1"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			for _, test := range []struct {
				recorded, want string
			}{{manifest, ""}, {manifest + "#", changed}} {
				w := newReleaseWorld(t)
				sum := sha256.Sum256([]byte(test.recorded))
				w.EditSubresource("DemoApp", "shop/web", "demoapp-controller", "status", func(live *unstructured.Unstructured) {
					expect.NoError(t, unstructured.SetNestedField(live.Object, hex.EncodeToString(sum[:]), "status", "appliedManifestHash"))
				})

				code, _, errOut := w.run(t, strings.Fields(args)...)

				expect.Equal(t, "errors", test.want, errOut)
				expect.Equal(t, "whether the command failed", test.want != "", code == 3)
			}
		})
	}
}

// TestRecordedChartReadsItsNamespace: everyone with permission to edit Secrets of a namespace can
// change the chart of a record. The chart must not read other namespaces with the permissions of
// the plugin's user.
func TestRecordedChartReadsItsNamespace(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, lookup, out, error string
	}{
		{name: "the own namespace", lookup: `"v1" "ConfigMap" "shop" "shared"`, out: "+  text: found\n"},
		{name: "another namespace", lookup: `"v1" "ConfigMap" "bank" "shared"`, error: "may only look up objects of namespace shop, got namespace bank"},
		{name: "all namespaces", lookup: `"v1" "ConfigMap" "" ""`, error: "may only look up objects of namespace shop, got configmaps of all namespaces"},
		{name: "a cluster-scoped object", lookup: `"v1" "Namespace" "" "shop"`, out: "+  text: none\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newReleaseWorld(t)
			for _, namespace := range []string{"shop", "bank"} {
				w.create(t, "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: "+namespace+", name: shared}, data: {text: found}}")
			}
			w.create(t, recordWith("2", "deployed", "b",
				"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {text: {{ dig \"data\" \"text\" \"none\" (lookup "+test.lookup+") }}}\n"))

			code, out, errOut := w.run(t, "diff", "demoapp/web", "--set", "message=c")

			expect.Contains(t, "output", out, test.out)
			expect.Contains(t, "errors", errOut, test.error)
			expect.Equal(t, "whether the command failed", test.error != "", code == 3)
		})
	}
}

// TestRefusedSecretIsNotQuoted: the API server quotes a value that it refuses.
func TestRefusedSecretIsNotQuoted(t *testing.T) {
	t.Parallel()
	w := newReleaseWorld(t)
	w.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
		if request.Verb != "update" {
			return nil
		}
		return apierrors.NewInvalid(schema.GroupKind{Group: "demo.example.com", Kind: "DemoApp"}, "web",
			field.ErrorList{field.Invalid(field.NewPath("spec", "apiKey"), "private", "should be at least 8 chars long")})
	}

	code, _, errOut := w.run(t, "diff", "demoapp/web", "--set", "apiKey=private")

	expect.Equal(t, "errors", `error: DemoApp.demo.example.com "web" is invalid: spec.apiKey: Invalid value: "REDACTED": should be at least 8 chars long`+"\n", errOut)
	expect.Equal(t, "exit code", 3, code)
}
