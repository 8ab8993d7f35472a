// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/example/demoapp-controller/hack/image/archive"
	"github.com/example/demoapp-controller/hack/image/pack"
)

// chartEdit replaces one line of a file of the chart.
type chartEdit struct {
	file        string
	line        *regexp.Regexp
	replacement string
}

// addChart adds the packaged chart. Its versions are those of the release, and its default image is that of the release by
// its digest. "helm package" is not used, because its archives contain the current time. Comments of the edited files stay.
func (r release) addChart(files map[string][]byte, digest string, modified time.Time) error {
	version := strings.TrimPrefix(r.version, "v")
	contents, err := archive.ReadTree(os.DirFS(r.chart), pack.Title)
	if err != nil {
		return fmt.Errorf("chart %s: %w", r.chart, err)
	}
	for _, edit := range []chartEdit{
		{"Chart.yaml", regexp.MustCompile(`(?m)^version: .*$`), "version: " + version},
		{"Chart.yaml", regexp.MustCompile(`(?m)^appVersion: .*$`), "appVersion: " + r.version},
		{"values.yaml", regexp.MustCompile(`(?m)^  repository: demoapp-controller$`), "  repository: " + r.repository},
		{"values.yaml", regexp.MustCompile(`(?m)^  digest: ""$`), "  digest: " + digest},
	} {
		if err := edit.apply(contents); err != nil {
			return fmt.Errorf("chart %s: %w", r.chart, err)
		}
	}
	var packed bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("compress the chart: %w", err)
	}
	if err := archive.Write(compressed, modified, contents...); err != nil {
		return err
	}
	if err := compressed.Close(); err != nil {
		return fmt.Errorf("compress the chart: %w", err)
	}
	files[pack.Title+"-"+version+".tgz"] = packed.Bytes()
	return nil
}

// apply replaces exactly one line.
func (e chartEdit) apply(files []archive.File) error {
	for i, file := range files {
		if file.Name != pack.Title+"/"+e.file {
			continue
		}
		if found := len(e.line.FindAll(file.Content, -1)); found != 1 {
			return fmt.Errorf("%s: has %d lines that match %s, want 1", e.file, found, e.line)
		}
		files[i].Content = e.line.ReplaceAllLiteral(file.Content, []byte(e.replacement))
		return nil
	}
	return fmt.Errorf("%s: does not exist", e.file)
}
