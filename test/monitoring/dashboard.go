// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Dashboards are the names of the dashboards, which are files in Artifacts/dashboards.
var Dashboards = []string{"operator", "resources"}

// Types of panels.
const (
	panelBarGauge   = "bargauge"
	panelRow        = "row"
	panelStat       = "stat"
	panelTable      = "table"
	panelTimeSeries = "timeseries"
)

// Dashboard is the part of Grafana's dashboard model that the tests check and that Draw shows.
type Dashboard struct {
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []Variable `json:"list"`
	} `json:"templating"`
	Panels []Panel `json:"panels"`
}

// Variable is a variable of a dashboard.
type Variable struct {
	Name       string      `json:"name"`
	Type       string      `json:"type"`
	Definition string      `json:"definition"`
	Datasource *Datasource `json:"datasource"`
}

// Datasource refers to a data source of Grafana.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a panel of a dashboard.
type Panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	Datasource  *Datasource `json:"datasource"`
	// GridPos is the position in a grid of 24 columns.
	GridPos     struct{ H, W, X, Y int } `json:"gridPos"`
	Targets     []Target                 `json:"targets"`
	FieldConfig struct {
		Defaults Field `json:"defaults"`
	} `json:"fieldConfig"`
	Options struct {
		// TextMode is "name" in a panel that shows the legend instead of the value.
		TextMode string `json:"textMode"`
	} `json:"options"`
	Transformations []struct {
		ID      string `json:"id"`
		Options struct {
			ColumnField string `json:"columnField"`
			RowField    string `json:"rowField"`
		} `json:"options"`
	} `json:"transformations"`
}

// Field says how values are shown.
type Field struct {
	Unit     string   `json:"unit"`
	Decimals *int     `json:"decimals"`
	Min      *float64 `json:"min"`
	Max      *float64 `json:"max"`
	Mappings []struct {
		Options map[string]struct {
			Text  string `json:"text"`
			Color string `json:"color"`
		} `json:"options"`
	} `json:"mappings"`
	Thresholds struct {
		Steps []struct {
			Color string   `json:"color"`
			Value *float64 `json:"value"`
		} `json:"steps"`
	} `json:"thresholds"`
	Custom struct {
		Stacking struct {
			Mode string `json:"mode"`
		} `json:"stacking"`
	} `json:"custom"`
}

// Target is a query of a panel.
type Target struct {
	Expr         string      `json:"expr"`
	LegendFormat string      `json:"legendFormat"`
	Instant      bool        `json:"instant"`
	Datasource   *Datasource `json:"datasource"`
}

// ReadDashboard reads a dashboard. root is the root of the repository.
func ReadDashboard(root, name string) (*Dashboard, error) {
	content, err := os.ReadFile(filepath.Join(root, Artifacts, "dashboards", name+".json"))
	if err != nil {
		return nil, fmt.Errorf("read the dashboard %s: %w", name, err)
	}
	var dashboard Dashboard
	if err := json.Unmarshal(content, &dashboard); err != nil {
		return nil, fmt.Errorf("parse the dashboard %s: %w", name, err)
	}
	return &dashboard, nil
}

// Expand replaces the variables in an expression: all namespaces and controllers, the length of the
// shown range in whole seconds, rounded up, and the shortest range of a rate.
func Expand(expr string, shown, rate time.Duration) string {
	return strings.NewReplacer(
		"$__rate_interval", model.Duration(rate).String(),
		"$__range", model.Duration(shown.Truncate(time.Second)+time.Second).String(),
		"$namespace", ".*",
		"$controller", ".*",
	).Replace(expr)
}

// legendLabel is a label in the format of a legend: {{label}}.
var legendLabel = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// legend returns the name of a series.
func (t Target) legend(series labels.Labels) string {
	return strings.TrimSpace(legendLabel.ReplaceAllStringFunc(t.LegendFormat, func(reference string) string {
		return series.Get(legendLabel.FindStringSubmatch(reference)[1])
	}))
}
