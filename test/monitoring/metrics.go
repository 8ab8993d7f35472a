// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// targetLabels are the labels that Prometheus adds to all series of a target.
var targetLabels = []string{"instance", "job", "namespace", "pod"}

// foreignMetrics are the metrics that are not the operator's, with their labels.
var foreignMetrics = Metrics{
	// Of Prometheus: whether a scrape succeeded, and the alerts of the rules.
	"up":     nil,
	"ALERTS": {"alertname", "alertstate", "severity"},
}

// Metrics are the labels of metrics by the names of their series.
type Metrics map[string][]string

// ReadMetrics returns the series of the operator's list of metrics. root is the root of the
// repository.
func ReadMetrics(root string) (Metrics, error) {
	content, err := os.ReadFile(filepath.Join(root, Artifacts, "metrics.json"))
	if err != nil {
		return nil, fmt.Errorf("read the list of metrics: %w", err)
	}
	var list []struct {
		Name   string   `json:"name"`
		Type   string   `json:"type"`
		Labels []string `json:"labels"`
	}
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, fmt.Errorf("parse the list of metrics: %w", err)
	}
	metrics := Metrics{}
	for _, metric := range list {
		switch metric.Type {
		case "histogram":
			metrics[metric.Name+"_bucket"] = append(slices.Clone(metric.Labels), "le")
			metrics[metric.Name+"_count"], metrics[metric.Name+"_sum"] = metric.Labels, metric.Labels
		case "summary":
			metrics[metric.Name] = append(slices.Clone(metric.Labels), "quantile")
			metrics[metric.Name+"_count"], metrics[metric.Name+"_sum"] = metric.Labels, metric.Labels
		default:
			metrics[metric.Name] = metric.Labels
		}
	}
	return metrics, nil
}

// Check returns a problem for each metric and each label in an expression that does not exist.
func (m Metrics) Check(expression string) []string {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return []string{"does not parse: " + err.Error()}
	}
	var problems []string
	known := slices.Clone(targetLabels)
	selected := parser.ExtractSelectors(expr)
	for _, matchers := range selected {
		name := metricName(matchers)
		found, ok := m[name]
		if !ok {
			problems = append(problems, fmt.Sprintf("the metric %s does not exist", name))
			continue
		}
		known = append(known, found...)
		for _, matcher := range matchers {
			if l := matcher.Name; l != model.MetricNameLabel && !slices.Contains(found, l) && !slices.Contains(targetLabels, l) {
				problems = append(problems, fmt.Sprintf("the metric %s has no label %s", name, l))
			}
		}
	}
	if len(selected) == 0 {
		problems = append(problems, "selects no metric")
	}
	for _, label := range groupingLabels(expr) {
		if !slices.Contains(known, label) {
			problems = append(problems, fmt.Sprintf("no metric in it has the label %s", label))
		}
	}
	return problems
}

// metricName returns the name of the metric that a selector names, or "".
func metricName(matchers []*labels.Matcher) string {
	for _, matcher := range matchers {
		if matcher.Name == model.MetricNameLabel && matcher.Type == labels.MatchEqual {
			return matcher.Value
		}
	}
	return ""
}

// groupingLabels returns the labels of "by" and "on".
func groupingLabels(expr parser.Expr) []string {
	var found []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.AggregateExpr:
			found = append(found, node.Grouping...)
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				found = append(found, node.VectorMatching.MatchingLabels...)
			}
		}
		return nil
	})
	return found
}

// recordedLabels returns the labels of a series that a recording rule writes. Its name begins with
// them, up to a colon.
func recordedLabels(name string) []string {
	level, _, _ := strings.Cut(name, ":")
	return strings.Split(level, "_")
}
