// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestSecretOf: the records are what Helm's own driver would write, to the byte; but
// for how well those are compressed that are soon replaced.
func TestSecretOf(t *testing.T) {
	for _, status := range []common.Status{common.StatusPendingUpgrade, common.StatusDeployed} {
		t.Run(string(status), func(t *testing.T) { testSecretOf(t, status) })
	}
}

func testSecretOf(t *testing.T, status common.Status) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		secrets := fake.NewClientset().CoreV1().Secrets("default")
		theirs := driver.NewSecrets(secrets)
		for _, labels := range []map[string]string{nil, {InputsLabel: "2-abc", "status": "mine"}} {
			rls := &releasev1.Release{
				Name: "web", Namespace: "default", Version: 2, Labels: labels, Manifest: "---\na: <b>\n",
				Info: &releasev1.Info{Status: status},
			}
			key := recordSecretName("web", 2)
			if err := theirs.Create(key, rls); err != nil {
				t.Fatal(err)
			}
			for _, at := range []string{"createdAt", "modifiedAt"} {
				want, err := secrets.Get(t.Context(), key, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				got, err := secretOf(key, rls, at)
				if err != nil {
					t.Fatal(err)
				}
				if status.IsPending() {
					want.Data["release"], got.Data["release"] = unpacked(t, want.Data["release"]), unpacked(t, got.Data["release"])
				}
				want.TypeMeta, want.Namespace, want.ManagedFields = metav1.TypeMeta{}, "", nil
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-Helm's +ours):\n%s", at, diff)
				}
				if err := theirs.Update(key, rls); err != nil {
					t.Fatal(err)
				}
			}
			if err := secrets.Delete(t.Context(), key, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// unpacked is the JSON of a release that a record holds.
func unpacked(t *testing.T, record []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(record)))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
