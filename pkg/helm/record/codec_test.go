// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/charts"
)

// TestRecordsHaveHelmsFormat: the output of the codec has the content that Helm's own driver would
// write, in one member of gzip, and both read it alike.
func TestRecordsHaveHelmsFormat(t *testing.T) {
	demo, err := chart.LoadFS(charts.DemoApp(), ".")
	if err != nil {
		t.Fatal(err)
	}
	chart, err := demo.Parse()
	if err != nil {
		t.Fatal(err)
	}
	for name, rls := range map[string]*releasev1.Release{
		"no chart": {Manifest: "---\na: <b>\n"},
		"a chart":  {Chart: chart, Config: map[string]any{"a": "b", "n": 1.5}, Manifest: "a: <b>\n", ApplyMethod: "ssa"},
		"large":    {Chart: chart, Manifest: strings.Repeat("large: <content>\n", largeContent/16)},
		"hooks": {
			Chart: chart, Hooks: []*releasev1.Hook{{Name: "h", Kind: "Job", Events: []releasev1.HookEvent{releasev1.HookPreInstall}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rls.Name, rls.Namespace, rls.Version, rls.Info = "web", "default", 2, &releasev1.Info{Status: common.StatusDeployed}
			codec := newCodec()
			var part *Part
			if rls.Chart != nil {
				if part, err = codec.Part(rls.Chart); err != nil {
					t.Fatal(err)
				}
			}
			content, record, err := codec.Encode(rls, part)
			if err != nil {
				t.Fatal(err)
			}
			secrets := fake.NewClientset().CoreV1().Secrets("default")
			theirs, key := driver.NewSecrets(secrets), SecretName("web", 2)
			if err := theirs.Create(key, rls); err != nil {
				t.Fatal(err)
			}
			helms, err := secrets.Get(t.Context(), key, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(unpacked(t, helms.Data["release"]), unpacked(t, record)); diff != "" {
				t.Errorf("content (-Helm's +ours):\n%s", diff)
			}
			if size, limit := len(record), len(helms.Data["release"])*11/10+64; size > limit {
				t.Errorf("the record has %d bytes, want no more than %d", size, limit)
			}
			helms.Data["release"] = record
			if _, err := secrets.Update(t.Context(), helms, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			want, err := theirs.Get(key)
			if err != nil {
				t.Fatalf("Helm cannot read it: %v", err)
			}
			got, err := content.Release()
			if err != nil {
				t.Fatal(err)
			}
			options := cmp.Options{cmpopts.IgnoreUnexported(chartv2.Chart{}), cmpopts.IgnoreFields(releasev1.Release{}, "Labels")}
			if diff := cmp.Diff(want, got, options); diff != "" {
				t.Errorf("release (-as Helm reads it +as it is read from the content):\n%s", diff)
			}
		})
	}
}

// unpacked is the JSON of a release that a record holds.
func unpacked(t *testing.T, record []byte) map[string]any {
	t.Helper()
	stream, err := base64.StdEncoding.DecodeString(string(record))
	if err != nil {
		t.Fatal(err)
	}
	source := bytes.NewReader(stream)
	reader, err := gzip.NewReader(source)
	if err != nil {
		t.Fatal(err)
	}
	reader.Multistream(false)
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	if source.Len() > 0 {
		t.Errorf("%d bytes follow the first member of gzip", source.Len())
	}
	var unpacked map[string]any
	if err := json.Unmarshal(content, &unpacked); err != nil {
		t.Fatal(err)
	}
	return unpacked
}

// TestSecretOf: the Secrets of records equal the Secrets of Helm's driver.
func TestSecretOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := fake.NewClientset().CoreV1().Secrets("default")
		theirs := driver.NewSecrets(secrets)
		for _, labels := range []map[string]string{nil, {InputsLabel: "2-abc", "status": "mine"}} {
			rls := &releasev1.Release{
				Name: "web", Namespace: "default", Version: 2, Labels: labels, Info: &releasev1.Info{Status: common.StatusPendingUpgrade},
			}
			key := SecretName("web", 2)
			if err := theirs.Create(key, rls); err != nil {
				t.Fatal(err)
			}
			for _, at := range []string{"createdAt", "modifiedAt"} {
				want, err := secrets.Get(t.Context(), key, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				got := SecretOf(key, rls, want.Data["release"], at)
				want.TypeMeta, want.Namespace, want.ManagedFields = metav1.TypeMeta{}, "", nil
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-Helm's +ours):\n%s", at, diff)
				}
				read, err := theirs.Get(key)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(read.(*releasev1.Release).Labels, OwnLabels(got.Labels)); diff != "" {
					t.Errorf("labels of the release (-as Helm reads them +ours):\n%s", diff)
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

// TestChartParts: equal charts share one part, and no more than some are held.
func TestChartParts(t *testing.T) {
	codec := newCodec()
	chart := func(i int) *chartv2.Chart {
		return &chartv2.Chart{Metadata: &chartv2.Metadata{Name: fmt.Sprint("chart-", i)}}
	}
	first, err := codec.Part(chart(0))
	if err != nil {
		t.Fatal(err)
	}
	again, err := codec.Part(chart(0))
	if err != nil {
		t.Fatal(err)
	}
	if first != again {
		t.Error("an equal chart was compressed again")
	}
	for i := range 3 * maxChartParts {
		part, err := codec.Part(chart(i))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := part.chart.Name(), chart(i).Name(); got != want {
			t.Fatalf("the part of %s is that of %s", want, got)
		}
		if len(codec.parts) > maxChartParts {
			t.Fatalf("%d charts are held", len(codec.parts))
		}
	}
}
