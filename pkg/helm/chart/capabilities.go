// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"encoding/json"

	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// capabilities is the name by which a template reads the capabilities of the API server.
var capabilities = []byte("Capabilities")

// NamesCapabilities reports whether a rendering of the chart with values may depend on the kinds or
// the version of the API server. A template, or a value that tpl renders, names .Capabilities, or the
// chart demands a version of Kubernetes.
func (c *Chart) NamesCapabilities(values map[string]any) bool {
	if c.namesCapabilities() {
		return true
	}
	text, err := json.Marshal(values)
	return err != nil || bytes.Contains(text, capabilities)
}

func (c *Chart) findCapabilities() bool {
	parsed, err := c.Parse()
	return err == nil && (parsed.Metadata.KubeVersion != "" || namesCapabilities(parsed))
}

// namesCapabilities searches a chart and its sub-charts. Templates may render any file.
func namesCapabilities(chart *chartv2.Chart) bool {
	for _, files := range [][]*common.File{chart.Templates, chart.Files, chart.Raw} {
		for _, file := range files {
			if bytes.Contains(file.Data, capabilities) {
				return true
			}
		}
	}
	for _, dependency := range chart.Dependencies() {
		if namesCapabilities(dependency) {
			return true
		}
	}
	return false
}
