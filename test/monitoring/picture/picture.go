// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"fmt"
	"io"
	"time"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/example/demoapp-controller/test/monitoring"
)

// Sizes of the page.
const (
	columns      = 24
	columnWidth  = vg.Length(46)
	rowHeight    = vg.Length(21)
	gap          = vg.Length(4)
	headerHeight = vg.Length(40)
	// resolution is in dots per inch; lengths are in points.
	resolution = 110
)

// Range is the range of time that the charts show.
type Range struct{ From, To time.Time }

// Write draws a dashboard with the data of its panels, as a PNG image.
func Write(w io.Writer, dashboard *monitoring.Dashboard, panels []monitoring.PanelData, shown Range) error {
	rows := 0
	for _, data := range panels {
		rows = max(rows, data.Panel.GridPos.Y+data.Panel.GridPos.H)
	}
	width, height := columns*columnWidth+2*gap, headerHeight+vg.Length(rows)*rowHeight+2*gap
	image := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(resolution))
	page := draw.New(image)
	box(page, pageColor, nil)
	page.FillText(style(15, textColor, true), vg.Point{X: 3 * gap, Y: height - headerHeight/2}, dashboard.Title)
	for _, data := range panels {
		grid := data.Panel.GridPos
		top := height - headerHeight - vg.Length(grid.Y)*rowHeight
		left := gap + vg.Length(grid.X)*columnWidth
		panel := draw.Canvas{Canvas: page.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: left + gap/2, Y: top - vg.Length(grid.H)*rowHeight + gap/2},
			Max: vg.Point{X: left + vg.Length(grid.W)*columnWidth - gap/2, Y: top - gap/2},
		}}
		if err := drawPanel(panel, data, shown); err != nil {
			return fmt.Errorf("draw the panel %q: %w", data.Panel.Title, err)
		}
	}
	if _, err := (vgimg.PngCanvas{Canvas: image}).WriteTo(w); err != nil {
		return fmt.Errorf("write the picture of %s: %w", dashboard.Title, err)
	}
	return nil
}

// drawPanel draws a panel with its title.
func drawPanel(c draw.Canvas, data monitoring.PanelData, shown Range) error {
	if data.Panel.Type == "row" {
		c.FillText(style(11, textColor, true), vg.Point{X: c.Min.X + 2*gap, Y: c.Center().Y - 1}, data.Panel.Title)
		return nil
	}
	box(c, panelColor, borderColor)
	title := style(9.5, textColor, true)
	c.FillText(title, vg.Point{X: c.Min.X + 2*gap, Y: c.Max.Y - 10}, fit(title, data.Panel.Title, c.Size().X-4*gap))
	content := area(c, 2*gap, 2*gap, gap, 20)
	if !data.HasData() {
		empty := style(10, mutedColor, false)
		empty.XAlign = text.XCenter
		c.FillText(empty, content.Center(), "No data")
		return nil
	}
	switch data.Panel.Type {
	case "stat":
		drawStat(content, data)
	case "timeseries":
		return drawTimeSeries(content, data, shown)
	case "bargauge":
		drawBars(content, data)
	case "table":
		drawTable(content, data)
	default:
		return fmt.Errorf("the type %q is unknown", data.Panel.Type)
	}
	return nil
}
