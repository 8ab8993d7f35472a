// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// copied lists the files of the chart that are copies. Helm packages only files in the chart's own
// folder.
var copied = []struct {
	// from is a pattern, relative to the root of the repository.
	from string
	// to returns the name of the copy in the chart's files.
	to func(from string) string
}{
	{crds + "/*.yaml", inFolder("crds")},
	{kinds + "/*/crd.yaml", func(from string) string {
		return filepath.Join("kinds", filepath.Base(filepath.Dir(from)), "crd.yaml")
	}},
	{webhookFiles + "/webhook.yaml", inFolder("webhook")},
	{monitoring + "/prometheusrule.yaml", inFolder("monitoring")},
	{monitoring + "/servicemonitor.yaml", inFolder("monitoring")},
	{monitoring + "/dashboards/*.json", inFolder("monitoring/dashboards")},
}

func inFolder(folder string) func(string) string {
	return func(from string) string { return filepath.Join(folder, filepath.Base(from)) }
}

// copyChartFiles replaces the copies in the chart. A copy whose source is gone is removed.
func copyChartFiles(root string) error {
	files := filepath.Join(root, chart, "files")
	for _, folder := range []string{"crds", "kinds", "webhook", "monitoring"} {
		if err := os.RemoveAll(filepath.Join(files, folder)); err != nil {
			return err
		}
	}
	for _, c := range copied {
		sources, err := filepath.Glob(filepath.Join(root, c.from))
		if err != nil {
			return err
		}
		if len(sources) == 0 {
			return fmt.Errorf("no file matches %s", c.from)
		}
		for _, source := range sources {
			content, err := os.ReadFile(filepath.Clean(source))
			if err != nil {
				return err
			}
			if err := writeFile(filepath.Join(files, c.to(source)), content); err != nil {
				return err
			}
		}
	}
	return nil
}
