// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package plugin

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReport: the archive has the objects and no texts of their spec. An existing file stays.
func TestReport(t *testing.T) {
	t.Parallel()
	namespace := shared.Namespace(t)
	apply(t, namespace, "{apiVersion: demo.example.com/v1alpha1, kind: DemoApp, metadata: {name: web}, spec: {replicaCount: 1, apiKey: s3cret-text, message: s3cret-text}}")
	output := filepath.Join(t.TempDir(), "report.tar.gz")

	got := kubectl(t, namespace, "report", "--output", output)

	if got.code != 0 || !strings.Contains(got.errors, "left out: Deployment of the operator: ") {
		t.Fatalf("got %+v", got)
	}
	files := unpack(t, output)
	if objects := files["demoapp-report/objects/demoapps.demo.example.com.yaml"]; !strings.Contains(objects, "name: web") {
		t.Errorf("the archive lacks the object: %s", objects)
	}
	for name, content := range files {
		if strings.Contains(content, "s3cret-text") {
			t.Errorf("%s has a text of the spec: %s", name, content)
		}
	}
	if again := kubectl(t, namespace, "report", "--output", output); again.code != 3 || !strings.Contains(again.errors, "file exists") {
		t.Errorf("got %+v", again)
	}
}

// unpack returns the contents of an archive by name.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	content, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files, archive := map[string]string{}, tar.NewReader(content)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}
