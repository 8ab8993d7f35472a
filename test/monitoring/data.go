// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

// points is the number of points of a line.
const points = 240

// PanelData are the series of a panel.
type PanelData struct {
	Panel  Panel
	Series []Series
}

// Series is the result of a query with its name in the legend.
type Series struct {
	Name   string
	Labels labels.Labels
	Points []promql.FPoint
}

// Last returns the last value of a series.
func (s Series) Last() float64 { return s.Points[len(s.Points)-1].F }

// HasData reports whether a panel has a value to show.
func (d PanelData) HasData() bool {
	for _, series := range d.Series {
		for _, point := range series.Points {
			if !math.IsNaN(point.F) {
				return true
			}
		}
	}
	return false
}

// Read runs the queries of a dashboard for a range, and returns the data of its panels and rows.
// rate is the shortest range of a rate.
func (s *Server) Read(ctx context.Context, dashboard *Dashboard, from, to time.Time, rate time.Duration) ([]PanelData, error) {
	var read []PanelData
	for _, panel := range dashboard.Panels {
		data := PanelData{Panel: panel}
		for _, target := range panel.Targets {
			begin := from
			if target.Instant {
				begin = to
			}
			step := max(to.Sub(from)/points, time.Second)
			matrix, err := s.Query(ctx, Expand(target.Expr, to.Sub(from), rate), begin, to, step)
			if err != nil {
				return nil, fmt.Errorf("panel %q: %w", panel.Title, err)
			}
			for _, series := range matrix {
				data.Series = append(data.Series, Series{
					Name: target.legend(series.Metric), Labels: series.Metric, Points: series.Floats,
				})
			}
		}
		read = append(read, data)
	}
	return read, nil
}

// emptyPanels are the titles of the panels that have no data while the operator is healthy.
var emptyPanels = []string{
	"Age of the oldest deletion", "Errors by kind", "Failed lists and watches", "Helm operations that failed", "Retries of requests",
}

// Empty returns the titles of the panels that lack data, except for those that have none while the
// operator is healthy.
func Empty(panels []PanelData) []string {
	var titles []string
	for _, data := range panels {
		if data.Panel.Type != panelRow && !data.HasData() && !slices.Contains(emptyPanels, data.Panel.Title) {
			titles = append(titles, data.Panel.Title)
		}
	}
	return titles
}
