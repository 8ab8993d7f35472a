// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// Artifacts is the folder of the rules and dashboards, below the root of the repository.
const Artifacts = "artifacts/monitoring"

// Rules returns the rules of the PrometheusRule as a rule file of a plain Prometheus, as text and
// parsed. root is the root of the repository.
func Rules(root string) ([]byte, *rulefmt.RuleGroups, error) {
	file := filepath.Join(root, Artifacts, "prometheusrule.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read the rules: %w", err)
	}
	var object struct {
		Kind string         `json:"kind"`
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(content, &object); err != nil {
		return nil, nil, fmt.Errorf("parse %s: %w", file, err)
	}
	if object.Kind != "PrometheusRule" {
		return nil, nil, fmt.Errorf("%s: the kind is %q, and has to be PrometheusRule", file, object.Kind)
	}
	plain, err := yaml.Marshal(object.Spec)
	if err != nil {
		return nil, nil, fmt.Errorf("write the rules of %s: %w", file, err)
	}
	groups, errs := rulefmt.Parse(plain, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return nil, nil, fmt.Errorf("%s: %w", file, errs[0])
	}
	return plain, groups, nil
}
