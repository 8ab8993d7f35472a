// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/charts"
)

// BenchmarkRecords compares how the two records of an install are encoded: by the
// codec, which compresses a chart once, and by compress/gzip with a pooled writer,
// which compresses the chart in each record. Both variants alternate, so that a busy
// machine slows both down. The metrics are medians.
func BenchmarkRecords(b *testing.B) {
	demo, err := chart.LoadFS(charts.DemoApp(), ".")
	if err != nil {
		b.Fatal(err)
	}
	chart, err := demo.Parse()
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{2, 50, 900} {
		for _, level := range []int{gzip.BestSpeed, gzip.BestCompression} {
			b.Run(fmt.Sprintf("manifest=%dKiB/gzip=%d", size, level), func(b *testing.B) {
				rls := benchmarkRelease(chart, size<<10)
				codec := newCodec()
				writers := &sync.Pool{New: func() any {
					writer, err := gzip.NewWriterLevel(nil, level)
					if err != nil {
						b.Error(err)
					}
					return writer
				}}
				var shared, plain []time.Duration
				var sharedBytes, plainBytes int
				for b.Loop() {
					started := time.Now()
					sharedBytes = encodeShared(b, codec, rls)
					between := time.Now()
					plainBytes = encodePlain(b, writers, rls)
					shared, plain = append(shared, between.Sub(started)), append(plain, time.Since(between))
				}
				b.ReportMetric(microseconds(shared), "codec-µs")
				b.ReportMetric(microseconds(plain), "gzip-µs")
				b.ReportMetric(100*(1-microseconds(shared)/microseconds(plain)), "%saved")
				b.ReportMetric(float64(sharedBytes), "codec-bytes")
				b.ReportMetric(float64(plainBytes), "gzip-bytes")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// benchmarkRelease is a release with a manifest of about that many bytes. Its names and values
// differ, as in real charts.
func benchmarkRelease(chart *chartv2.Chart, size int) *releasev1.Release {
	random := rand.New(rand.NewPCG(1, 2))
	var manifest strings.Builder
	for manifest.Len() < size {
		fmt.Fprintf(&manifest, "---\n# Source: demo-app/templates/configmap.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web-%x\ndata:\n  key: \"%x\"\n",
			random.Uint32(), random.Uint64())
	}
	return &releasev1.Release{
		Name: "web", Namespace: "default", Version: 1, Chart: chart, Manifest: manifest.String(),
		Config: map[string]any{"apiKey": "verysecret"}, Info: &releasev1.Info{Status: common.StatusPendingInstall},
	}
}

// encodeShared encodes both records of an install as a store does.
func encodeShared(b *testing.B, codec *Codec, rls *releasev1.Release) (size int) {
	b.Helper()
	part, err := codec.Part(rls.Chart)
	if err != nil {
		b.Fatal(err)
	}
	for range 2 {
		_, record, err := codec.Encode(rls, part)
		if err != nil {
			b.Fatal(err)
		}
		size = len(record)
	}
	return size
}

// encodePlain encodes both records of an install as Helm's driver does, but with a
// pooled writer.
func encodePlain(b *testing.B, writers *sync.Pool, rls *releasev1.Release) (size int) {
	b.Helper()
	for range 2 {
		content, err := json.Marshal(rls)
		if err != nil {
			b.Fatal(err)
		}
		writer := writers.Get().(*gzip.Writer)
		var stream bytes.Buffer
		writer.Reset(&stream)
		if _, err := writer.Write(content); err != nil {
			b.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			b.Fatal(err)
		}
		writers.Put(writer)
		size = len(base64.StdEncoding.EncodeToString(stream.Bytes()))
	}
	return size
}

// microseconds is the median.
func microseconds(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2]) / float64(time.Microsecond)
}
