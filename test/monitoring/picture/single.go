// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/example/demoapp-controller/test/monitoring"
)

// drawStat draws one value, or the names of the series.
func drawStat(c draw.Canvas, data monitoring.PanelData) {
	field := data.Panel.FieldConfig.Defaults
	value := data.Series[0].Last()
	shown, shade := monitoring.Format(value, field.Unit, field.Decimals), thresholdColor(field, value)
	if data.Panel.Options.TextMode == "name" {
		var names []string
		for _, series := range data.Series {
			names = append(names, series.Name)
		}
		shown = strings.Join(names, ", ")
	}
	for _, mapping := range field.Mappings {
		if mapped, ok := mapping.Options[strconv.FormatFloat(value, 'f', -1, 64)]; ok {
			shown, shade = mapped.Text, named[mapped.Color]
		}
	}
	size := vg.Length(24)
	for size > 8 && style(size, shade, true).Width(shown) > c.Size().X {
		size--
	}
	value24 := style(size, shade, true)
	value24.XAlign = text.XCenter
	c.FillText(value24, c.Center(), shown)
}

// thresholdColor returns the color of the last threshold that a value reaches.
func thresholdColor(field monitoring.Field, value float64) color.RGBA {
	found := textColor
	for _, step := range field.Thresholds.Steps {
		if step.Value == nil || value >= *step.Value {
			found = named[step.Color]
		}
	}
	return found
}

// drawBars draws a horizontal bar for the last value of each series.
func drawBars(c draw.Canvas, data monitoring.PanelData) {
	field := data.Panel.FieldConfig.Defaults
	series := slices.DeleteFunc(slices.Clone(data.Series), func(s monitoring.Series) bool { return math.IsNaN(s.Last()) })
	slices.SortFunc(series, func(a, b monitoring.Series) int { return strings.Compare(a.Name, b.Name) })
	largest, labelWidth, valueWidth := 0.0, vg.Length(0), vg.Length(0)
	label := style(8.5, textColor, false)
	for _, s := range series {
		largest = max(largest, s.Last())
		labelWidth = max(labelWidth, label.Width(s.Name))
		valueWidth = max(valueWidth, label.Width(monitoring.Format(s.Last(), field.Unit, field.Decimals)))
	}
	height := min(c.Size().Y/vg.Length(len(series)), 24)
	bars := c.Size().X - labelWidth - valueWidth - 4*gap
	for i, s := range series {
		middle := c.Max.Y - (vg.Length(i)+0.5)*height
		c.FillText(label, vg.Point{X: c.Min.X, Y: middle}, s.Name)
		bar := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: c.Min.X + labelWidth + 2*gap, Y: middle - height*0.32},
			Max: vg.Point{X: c.Min.X + labelWidth + 2*gap + bars, Y: middle + height*0.32},
		}}
		box(bar, gridColor, nil)
		if largest > 0 && s.Last() > 0 {
			bar.Max.X = bar.Min.X + bars*vg.Length(s.Last()/largest)
			box(bar, seriesColor(i), nil)
		}
		value := label
		value.XAlign = text.XRight
		c.FillText(value, vg.Point{X: c.Max.X, Y: middle}, monitoring.Format(s.Last(), field.Unit, field.Decimals))
	}
}

// drawTable draws the matrix of the transformation groupingToMatrix.
func drawTable(c draw.Canvas, data monitoring.PanelData) {
	options := data.Panel.Transformations[0].Options
	var rows, columns []string
	cells := map[[2]string]string{}
	for _, s := range data.Series {
		row, column := s.Labels.Get(options.RowField), s.Labels.Get(options.ColumnField)
		rows, columns = append(rows, row), append(columns, column)
		cells[[2]string{row, column}] = monitoring.Format(s.Last(), data.Panel.FieldConfig.Defaults.Unit, nil)
	}
	slices.Sort(rows)
	slices.Sort(columns)
	rows, columns = slices.Compact(rows), slices.Compact(columns)
	height := min(c.Size().Y/vg.Length(len(rows)+1), 18)
	plain, head := style(8.5, textColor, false), style(8.5, mutedColor, true)
	x := func(column int) vg.Length {
		first := c.Size().X * 0.36
		return c.Min.X + first + vg.Length(column+1)*(c.Size().X-first)/vg.Length(len(columns))
	}
	line := func(row int, s text.Style, name string, values []string) {
		middle := c.Max.Y - (vg.Length(row)+0.5)*height
		c.FillText(s, vg.Point{X: c.Min.X, Y: middle}, name)
		s.XAlign = text.XRight
		for i, value := range values {
			c.FillText(s, vg.Point{X: x(i), Y: middle}, value)
		}
		c.StrokeLine2(draw.LineStyle{Color: gridColor, Width: 0.7}, c.Min.X, middle-height/2, c.Max.X, middle-height/2)
	}
	line(0, head, options.RowField, columns)
	for i, row := range rows {
		values := make([]string, 0, len(columns))
		for _, column := range columns {
			values = append(values, cells[[2]string{row, column}])
		}
		line(i+1, plain, row, values)
	}
}
