// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// datasourceVariable is how panels name the data source that the user chooses.
const datasourceVariable = "${datasource}"

func TestDashboards(t *testing.T) {
	t.Parallel()
	var files []string
	for _, name := range Dashboards {
		files = append(files, name+".json")
	}
	if found := fileNames(t, filepath.Join(root, Artifacts, "dashboards")); !slices.Equal(found, files) {
		t.Errorf("the dashboards are %q, and the tests know %q", found, files)
	}
	uids := map[string]bool{}
	for _, name := range Dashboards {
		dashboard, err := ReadDashboard(root, name)
		if err != nil {
			t.Fatal(err)
		}
		if dashboard.UID == "" || len(dashboard.UID) > 40 || uids[dashboard.UID] {
			t.Errorf("%s: the uid %q is empty, longer than 40 characters, or that of another dashboard", name, dashboard.UID)
		}
		uids[dashboard.UID] = true
		if first := dashboard.Templating.List[0]; first.Type != "datasource" || first.Name != "datasource" {
			t.Errorf("%s: the first variable does not select the data source", name)
		}
		checkPanels(t, name, dashboard)
		checkDatasources(t, name)
	}
}

// checkPanels checks that panels are complete, have ids of their own, and do not overlap.
func checkPanels(t *testing.T, name string, dashboard *Dashboard) {
	t.Helper()
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, panel := range dashboard.Panels {
		if panel.ID == 0 || ids[panel.ID] {
			t.Errorf("%s: panel %q has the id %d of another one, or none", name, panel.Title, panel.ID)
		}
		ids[panel.ID] = true
		for x := range panel.GridPos.W {
			for y := range panel.GridPos.H {
				cell := [2]int{panel.GridPos.X + x, panel.GridPos.Y + y}
				if other, ok := taken[cell]; ok || cell[0] >= gridColumns {
					t.Fatalf("%s: panel %q overlaps %q, or leaves the grid, at %v", name, panel.Title, other, cell)
				}
				taken[cell] = panel.Title
			}
		}
		if panel.Type == panelRow {
			continue
		}
		if panel.Title == "" || panel.Description == "" || len(panel.Targets) == 0 {
			t.Errorf("%s: panel %d lacks a title, a description or a query", name, panel.ID)
		}
		if unit := panel.FieldConfig.Defaults.Unit; !slices.Contains(units, unit) {
			t.Errorf("%s: panel %q has the unit %q, and needs one of %q", name, panel.Title, unit, units)
		}
	}
}

// checkDatasources checks that the file names no data source but the variable.
func checkDatasources(t *testing.T, name string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, Artifacts, "dashboards", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	sources := regexp.MustCompile(`"datasource": (\{[^}]*(?:\$\{datasource\}[^}]*)?\}|"[^"]*")`).FindAllString(string(content), -1)
	if len(sources) == 0 {
		t.Errorf("%s: no panel has a data source", name)
	}
	for _, source := range sources {
		if !strings.Contains(source, datasourceVariable) {
			t.Errorf("%s: a data source is fixed: %s", name, source)
		}
	}
	dashboard, err := ReadDashboard(root, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			if target.Datasource == nil || target.Datasource.UID != datasourceVariable {
				t.Errorf("%s: a query of panel %q does not use the variable of the data source", name, panel.Title)
			}
		}
	}
}

// labelValues returns the selector and the label in the query of a variable, which is
// label_values(selector, label).
func labelValues(t *testing.T, variable Variable) (selector, label string) {
	t.Helper()
	parts := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(variable.Definition)
	if parts == nil {
		t.Fatalf("the query of the variable %s is not label_values(selector, label): %s", variable.Name, variable.Definition)
	}
	return parts[1], parts[2]
}
