// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/rulefmt"
	"sigs.k8s.io/yaml"
)

const (
	// root is the root of the repository.
	root = "../.."
	// alertTests has a file of promtool's unit tests for each alert.
	alertTests = "testdata/alerts"
	// runbookPage is the address of docs/runbooks.
	runbookPage = "https://github.com/example/demoapp-controller/blob/main/docs/runbooks/"
)

func TestAlertIsComplete(t *testing.T) {
	t.Parallel()
	for _, alert := range alerts(t) {
		t.Run(alert.Alert, func(t *testing.T) {
			t.Parallel()
			if !strings.HasPrefix(alert.Alert, "DemoAppController") {
				t.Error("the name does not begin with DemoAppController")
			}
			if severity := alert.Labels["severity"]; !slices.Contains([]string{"critical", "warning"}, severity) {
				t.Errorf("the severity is %q, and has to be critical or warning", severity)
			}
			if audience := alert.Labels["audience"]; !slices.Contains([]string{"operators", "owners"}, audience) {
				t.Errorf("the audience is %q, and has to be operators or owners", audience)
			}
			if alert.For == 0 {
				t.Error("the alert has no duration in which it is pending")
			}
			for _, annotation := range []string{"summary", "description"} {
				if alert.Annotations[annotation] == "" {
					t.Errorf("the annotation %s is missing", annotation)
				}
			}
			if !strings.Contains(alert.Annotations["description"], "$labels.") {
				t.Error("the description does not name the object of the labels")
			}
			if url := alert.Annotations["runbook_url"]; url != runbookPage+alert.Alert+".md" {
				t.Errorf("the runbook_url is %q", url)
			}
		})
	}
}

func TestRunbookOfEachAlert(t *testing.T) {
	t.Parallel()
	var expected []string
	for _, alert := range alerts(t) {
		expected = append(expected, alert.Alert+".md")
	}
	slices.Sort(expected)
	folder := filepath.Join(root, "docs", "runbooks")
	found := fileNames(t, folder)
	if !slices.Equal(found, expected) {
		t.Errorf("the runbooks are %q, and the alerts have %q", found, expected)
	}
	for _, name := range found {
		page, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if title := "# " + strings.TrimSuffix(name, ".md") + "\n"; !strings.HasPrefix(string(page), title) {
			t.Errorf("%s does not begin with %q", name, title)
		}
		for _, section := range []string{"What users notice", "Find the cause", "Fix", "Silence"} {
			if !strings.Contains(string(page), "\n## "+section+"\n") {
				t.Errorf("%s has no section %q", name, section)
			}
		}
	}
}

// TestAlertHasFiringAndQuietCase checks that promtool's tests of an alert show when it fires and
// when it does not.
func TestAlertHasFiringAndQuietCase(t *testing.T) {
	t.Parallel()
	type group struct {
		Cases []struct {
			Alert    string `json:"alertname"`
			Expected []any  `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	}
	for _, alert := range alerts(t) {
		content, err := os.ReadFile(filepath.Join(alertTests, alert.Alert+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Tests []group `json:"tests"`
		}
		if err := yaml.Unmarshal(content, &file); err != nil {
			t.Fatal(err)
		}
		firing, quiet := 0, 0
		for _, test := range file.Tests {
			fires := false
			for _, c := range test.Cases {
				fires = fires || c.Alert == alert.Alert && len(c.Expected) > 0
			}
			if fires {
				firing++
			} else {
				quiet++
			}
		}
		if firing == 0 || quiet == 0 {
			t.Errorf("%s has %d firing and %d quiet cases, and needs one of each", alert.Alert, firing, quiet)
		}
	}
}

// alerts returns the alerting rules.
func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	_, file, err := Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	var found []rulefmt.Rule
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				found = append(found, rule)
			}
		}
	}
	if len(found) == 0 {
		t.Fatal("there are no alerts")
	}
	return found
}

// fileNames returns the sorted names of the files in a folder.
func fileNames(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
