// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"maps"
	"testing"
	"time"
)

func TestRulesUseExistingMetrics(t *testing.T) {
	t.Parallel()
	metrics := allMetrics(t)
	_, file, err := Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			for _, problem := range metrics.Check(rule.Expr) {
				t.Errorf("%s%s: %s: %s", rule.Alert, rule.Record, rule.Expr, problem)
			}
		}
	}
}

func TestDashboardsUseExistingMetrics(t *testing.T) {
	t.Parallel()
	metrics := allMetrics(t)
	for _, name := range Dashboards {
		dashboard, err := ReadDashboard(root, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, variable := range dashboard.Templating.List {
			if variable.Type != "query" {
				continue
			}
			selector, label := labelValues(t, variable)
			// The aggregation makes Check look for the label, too.
			for _, problem := range metrics.Check("count by (" + label + ") (" + Expand(selector, time.Hour, time.Minute) + ")") {
				t.Errorf("%s: variable %s: %s", name, variable.Name, problem)
			}
		}
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				for _, problem := range metrics.Check(Expand(target.Expr, time.Hour, time.Minute)) {
					t.Errorf("%s: panel %q: %s: %s", name, panel.Title, target.Expr, problem)
				}
			}
		}
	}
}

func TestCheckReportsWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	metrics := Metrics{"http_requests_total": {"code"}}
	for _, test := range []struct {
		name, expr string
		problems   int
	}{
		{"a metric with its label and a label of the target", `sum by (code, pod) (rate(http_requests_total{job="a"}[5m]))`, 0},
		{"another metric", `rate(http_request_total[5m])`, 1},
		{"another label in a selector", `http_requests_total{status="200"}`, 1},
		{"another label in an aggregation", `sum by (status) (http_requests_total)`, 1},
		{"another label between two vectors", `http_requests_total and on (status) http_requests_total`, 1},
		{"no metric", `vector(1)`, 1},
		{"no expression", `sum(`, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if problems := metrics.Check(test.expr); len(problems) != test.problems {
				t.Errorf("problems of %s: %q, and there have to be %d", test.expr, problems, test.problems)
			}
		})
	}
}

// allMetrics returns the metrics of the operator, of Prometheus, and of the recording rules.
func allMetrics(t *testing.T) Metrics {
	t.Helper()
	metrics, err := ReadMetrics(root)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(metrics, foreignMetrics)
	_, file, err := Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Record != "" {
				metrics[rule.Record] = recordedLabels(rule.Record)
			}
		}
	}
	return metrics
}
