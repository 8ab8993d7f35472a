// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recordType is the type of the Secrets that hold release records.
const recordType = "helm.sh/release.v1"

// Compressors that records are written with. Each has about a megabyte of tables, a
// hundred times what it compresses. Records of what has ended are kept, and written
// as small as Helm writes them; one of what is pending is soon replaced.
var (
	ended   = sync.Pool{New: func() any { return newEncoder(gzip.BestCompression) }}
	pending = sync.Pool{New: func() any { return newEncoder(gzip.BestSpeed) }}
)

func newEncoder(level int) *gzip.Writer {
	writer, err := gzip.NewWriterLevel(nil, level)
	if err != nil {
		panic(fmt.Sprintf("gzip: %v", err)) // The levels are constants.
	}
	return writer
}

// secretOf is the Secret of a record as Helm's own driver writes it; at is
// the label that says when: createdAt or modifiedAt.
func secretOf(key string, rls *releasev1.Release, at string) (*corev1.Secret, error) {
	content, err := json.Marshal(rls)
	if err != nil {
		return nil, fmt.Errorf("encode revision %d of release %s: %w", rls.Version, rls.Name, err)
	}
	var compressed bytes.Buffer
	encoders := &ended
	if rls.Info.Status.IsPending() {
		encoders = &pending
	}
	writer := encoders.Get().(*gzip.Writer)
	defer encoders.Put(writer)
	writer.Reset(&compressed)
	if _, err := writer.Write(content); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	encoded := make([]byte, base64.StdEncoding.EncodedLen(compressed.Len()))
	base64.StdEncoding.Encode(encoded, compressed.Bytes())
	labels := maps.Clone(rls.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[at] = strconv.FormatInt(time.Now().Unix(), 10)
	labels[recordName], labels["owner"] = rls.Name, "helm"
	labels[recordStatus], labels[recordVersion] = rls.Info.Status.String(), strconv.Itoa(rls.Version)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: key, Labels: labels},
		Type:       recordType,
		Data:       map[string][]byte{"release": encoded},
	}, nil
}
