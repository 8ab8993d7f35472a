// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	_ "github.com/prometheus/prometheus/discovery/kubernetes" // The page finds pods with it.
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// TestPageOfMonitoring runs the commands of docs/monitoring.md for users of a plain Prometheus.
func TestPageOfMonitoring(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)

	t.Run("the scrape configuration keeps the pods of the Service", func(t *testing.T) {
		t.Parallel()
		loaded, err := config.Load(find(t, page, `(?ms)^(scrape_configs:\n.+?)^`+"```"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		scrape := loaded.ScrapeConfigs[0]
		if scrape.JobName != job {
			t.Errorf("the job is %q, and the rules select %q", scrape.JobName, job)
		}
		for service, kept := range map[string]bool{"demoapp-controller-metrics": true, "demoapp-controller-webhook": false} {
			target := labels.NewBuilder(labels.FromStrings(
				"__meta_kubernetes_service_name", service, "__meta_kubernetes_endpointslice_port_name", "metrics",
				"__meta_kubernetes_namespace", "demoapp-system", "__meta_kubernetes_pod_name", "demoapp-controller-0"))
			if keep := relabel.ProcessBuilder(target, scrape.RelabelConfigs...); keep != kept {
				t.Errorf("keeps the pods of %s: %t, and has to be %t", service, keep, kept)
			}
			if kept && (target.Get("namespace") != "demoapp-system" || target.Get("pod") != "demoapp-controller-0") {
				t.Errorf("the labels of the target are %s", target.Labels())
			}
		}
	})

	t.Run("the command writes the rule file", func(t *testing.T) {
		t.Parallel()
		command, _, _ := strings.Cut(find(t, page, `(?m)^\$ (sed .+)$`), " > ")
		shell := exec.CommandContext(t.Context(), "sh", "-c", command)
		shell.Dir = root
		written, err := shell.Output()
		if err != nil {
			t.Fatal(err)
		}
		groups, errs := rulefmt.Parse(written, false, model.UTF8Validation, parser.NewParser(parser.Options{}),
			slog.New(slog.DiscardHandler))
		if len(errs) > 0 {
			t.Fatal(errs[0])
		}
		if _, expected, err := Rules(root); err != nil || len(groups.Groups) != len(expected.Groups) {
			t.Errorf("the file has %d groups of rules: %v", len(groups.Groups), err)
		}
	})

	t.Run("the table has each alert with its severity", func(t *testing.T) {
		t.Parallel()
		for _, alert := range alerts(t) {
			if row := "| [" + alert.Alert + "](runbooks/" + alert.Alert + ".md) | " + alert.Labels["severity"] + " |"; !strings.Contains(page, row) {
				t.Errorf("the page has no row %q", row)
			}
		}
	})
}

// find returns the group of a regular expression.
func find(t *testing.T, text, expression string) string {
	t.Helper()
	found := regexp.MustCompile(expression).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("the page has nothing that matches %s", expression)
	}
	return found[1]
}
