// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/example/demoapp-controller/test/monitoring"
)

// legendLines is the number of lines that a legend may have.
const legendLines = 2

// legendHeight is the height of a line of a legend.
const legendHeight = vg.Length(12)

// drawTimeSeries draws lines, or stacked areas, over time.
func drawTimeSeries(c draw.Canvas, data monitoring.PanelData, shown Range) error {
	field := data.Panel.FieldConfig.Defaults
	series := slices.Clone(data.Series)
	slices.SortStableFunc(series, func(a, b monitoring.Series) int { return strings.Compare(a.Name, b.Name) })
	lines := drawLegend(c, series)

	chart := plot.New()
	styleAxes(chart, field)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = gridColor, gridColor
	chart.Add(grid)
	stacked := field.Custom.Stacking.Mode == "normal"
	if stacked {
		addAreas(chart, series)
	} else if err := addLines(chart, series); err != nil {
		return err
	}
	chart.X.Min, chart.X.Max = float64(shown.From.Unix()), float64(shown.To.Unix())
	if field.Min != nil {
		chart.Y.Min = *field.Min
	}
	if field.Max != nil {
		chart.Y.Max = *field.Max
	}
	if chart.Y.Max <= chart.Y.Min {
		chart.Y.Max = chart.Y.Min + 1
	}
	chart.Draw(area(c, 0, 4, vg.Length(lines)*legendHeight+2, 0))
	return nil
}

// styleAxes sets the labels of the axes.
func styleAxes(chart *plot.Plot, field monitoring.Field) {
	chart.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&chart.X, &chart.Y} {
		axis.LineStyle.Width, axis.Tick.LineStyle.Width, axis.Tick.Length = 0, 0, 0
		label := style(8, mutedColor, false)
		label.XAlign, label.YAlign = axis.Tick.Label.XAlign, axis.Tick.Label.YAlign
		axis.Tick.Label = label
		axis.Padding = 3
	}
	chart.X.Tick.Marker = plot.TickerFunc(func(from, to float64) []plot.Tick {
		var ticks []plot.Tick
		step := math.Ceil((to-from)/5/30) * 30
		for at := math.Ceil(from/step) * step; at <= to; at += step {
			ticks = append(ticks, plot.Tick{Value: at, Label: time.Unix(int64(at), 0).UTC().Format("15:04:05")})
		}
		return ticks
	})
	chart.Y.Tick.Marker = plot.TickerFunc(func(from, to float64) []plot.Tick {
		if field.Unit == "bytes" {
			return byteTicks(from, to)
		}
		var ticks []plot.Tick
		for _, tick := range (plot.DefaultTicks{}).Ticks(from, to) {
			if !tick.IsMinor() {
				ticks = append(ticks, plot.Tick{Value: tick.Value, Label: monitoring.Format(tick.Value, field.Unit, nil)})
			}
		}
		return ticks
	})
}

// byteTicks returns ticks at multiples of a power of two.
func byteTicks(from, to float64) []plot.Tick {
	const intervals = 3
	step := math.Exp2(math.Floor(math.Log2((to - from) / intervals)))
	var ticks []plot.Tick
	for at := math.Ceil(from/step) * step; at <= to; at += step {
		ticks = append(ticks, plot.Tick{Value: at, Label: monitoring.Format(at, "bytes", nil)})
	}
	return ticks
}

// addLines adds a line for each part of a series without a gap.
func addLines(chart *plot.Plot, series []monitoring.Series) error {
	for i, s := range series {
		for _, part := range parts(s.Points) {
			line, err := plotter.NewLine(part)
			if err != nil {
				return err
			}
			line.Color, line.Width = seriesColor(i), 1.3
			if len(part) == 1 {
				dot := &plotter.Scatter{XYs: part, GlyphStyle: draw.GlyphStyle{
					Color: seriesColor(i), Radius: 1.5, Shape: draw.CircleGlyph{},
				}}
				chart.Add(dot)
				continue
			}
			chart.Add(line)
		}
	}
	return nil
}

// parts splits the points of a series at gaps.
func parts(points []promql.FPoint) []plotter.XYs {
	var found []plotter.XYs
	step := int64(math.MaxInt64)
	for i := 1; i < len(points); i++ {
		step = min(step, points[i].T-points[i-1].T)
	}
	previous := int64(math.MinInt64)
	for _, point := range points {
		if math.IsNaN(point.F) || math.IsInf(point.F, 0) {
			continue
		}
		if len(found) == 0 || point.T-previous > step {
			found = append(found, nil)
		}
		last := len(found) - 1
		found[last] = append(found[last], plotter.XY{X: float64(point.T) / 1000, Y: point.F})
		previous = point.T
	}
	return found
}

// addAreas stacks the series. A series without a value at a time counts as 0.
func addAreas(chart *plot.Plot, series []monitoring.Series) {
	var times []int64
	values := make([]map[int64]float64, len(series))
	for i, s := range series {
		values[i] = map[int64]float64{}
		for _, point := range s.Points {
			if !math.IsNaN(point.F) {
				times = append(times, point.T)
				values[i][point.T] = point.F
			}
		}
	}
	times = withoutGaps(times)
	below := make([]float64, len(times))
	for i := range series {
		var upper, lower plotter.XYs
		for j, at := range times {
			lower = append(lower, plotter.XY{X: float64(at) / 1000, Y: below[j]})
			below[j] += values[i][at]
			upper = append(upper, plotter.XY{X: float64(at) / 1000, Y: below[j]})
		}
		line := &plotter.Line{XYs: upper, LineStyle: draw.LineStyle{Color: seriesColor(i), Width: 1}}
		slices.Reverse(lower)
		fill := &plotter.Polygon{
			XYs:   []plotter.XYs{append(slices.Clone(upper), lower...)},
			Color: translucent(seriesColor(i), 0x70),
		}
		chart.Add(fill, line)
	}
}

// withoutGaps returns the distinct times in order, with the times that are missing between them.
func withoutGaps(times []int64) []int64 {
	slices.Sort(times)
	times = slices.Compact(times)
	step := int64(math.MaxInt64)
	for i := 1; i < len(times); i++ {
		step = min(step, times[i]-times[i-1])
	}
	var filled []int64
	for i, at := range times {
		for i > 0 && at-filled[len(filled)-1] > step {
			filled = append(filled, filled[len(filled)-1]+step)
		}
		filled = append(filled, at)
	}
	return filled
}

// drawLegend draws the names of the series below a chart, and returns the number of lines.
func drawLegend(c draw.Canvas, series []monitoring.Series) int {
	label := style(8, textColor, false)
	const square = vg.Length(7)
	type entry struct {
		line, index int
		x           vg.Length
		name        string
	}
	var entries []entry
	x, line := vg.Length(0), 0
	for i, s := range series {
		name := fit(label, s.Name, c.Size().X-square-gap)
		width := square + gap + label.Width(name) + 2*gap
		if x > 0 && x+width > c.Size().X {
			x, line = 0, line+1
		}
		if line == legendLines {
			break
		}
		entries = append(entries, entry{line, i, x, name})
		x += width
	}
	lines := 1
	for _, e := range entries {
		lines = e.line + 1
	}
	label.XAlign = text.XLeft
	for _, e := range entries {
		middle := c.Min.Y + (vg.Length(lines-e.line)-0.5)*legendHeight
		mark := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: c.Min.X + e.x, Y: middle - square/2}, Max: vg.Point{X: c.Min.X + e.x + square, Y: middle + square/2},
		}}
		box(mark, seriesColor(e.index), nil)
		c.FillText(label, vg.Point{X: c.Min.X + e.x + square + gap, Y: middle}, e.name)
	}
	return lines
}
