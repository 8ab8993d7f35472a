// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"image/color"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colors of the page.
var (
	pageColor   = color.RGBA{R: 0xf0, G: 0xf2, B: 0xf5, A: 0xff}
	panelColor  = color.RGBA{R: 0xff, G: 0xff, B: 0xff, A: 0xff}
	borderColor = color.RGBA{R: 0xd8, G: 0xdb, B: 0xe0, A: 0xff}
	gridColor   = color.RGBA{R: 0xea, G: 0xec, B: 0xef, A: 0xff}
	textColor   = color.RGBA{R: 0x24, G: 0x29, B: 0x2e, A: 0xff}
	mutedColor  = color.RGBA{R: 0x6a, G: 0x70, B: 0x78, A: 0xff}
)

// palette are the colors of series.
var palette = []color.RGBA{
	{R: 0x3b, G: 0x7d, B: 0xd8, A: 0xff},
	{R: 0x4c, G: 0xa8, B: 0x5e, A: 0xff},
	{R: 0xe5, G: 0x9b, B: 0x22, A: 0xff},
	{R: 0xd6, G: 0x4a, B: 0x45, A: 0xff},
	{R: 0x8a, G: 0x5c, B: 0xc2, A: 0xff},
	{R: 0x2a, G: 0xa5, B: 0xb5, A: 0xff},
	{R: 0xc9, G: 0x5d, B: 0x9a, A: 0xff},
	{R: 0x8c, G: 0x6d, B: 0x4f, A: 0xff},
	{R: 0x7f, G: 0x8c, B: 0x3a, A: 0xff},
	{R: 0x5b, G: 0x66, B: 0x77, A: 0xff},
}

// named are the colors that the dashboards name.
var named = map[string]color.RGBA{"green": palette[1], "blue": palette[0], "orange": palette[2], "red": palette[3]}

// seriesColor returns the color of the series with this index.
func seriesColor(index int) color.RGBA { return palette[index%len(palette)] }

// translucent returns a color that lets the grid show through.
func translucent(c color.RGBA, alpha uint8) color.NRGBA {
	return color.NRGBA{R: c.R, G: c.G, B: c.B, A: alpha}
}

// style returns a text style. bold text is for titles and values.
func style(size vg.Length, c color.Color, bold bool) text.Style {
	face := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		face.Weight = 3
	}
	return text.Style{Color: c, Font: face, Handler: text.Plain{Fonts: font.DefaultCache}, YAlign: text.YCenter}
}

// box fills a rectangle and draws its border.
func box(c draw.Canvas, fill, border color.Color) {
	corners := []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}}
	c.FillPolygon(fill, corners)
	if border != nil {
		c.StrokeLines(draw.LineStyle{Color: border, Width: 0.7}, append(corners, c.Min))
	}
}

// area returns the part of a canvas with these distances from its edges.
func area(c draw.Canvas, left, right, bottom, top vg.Length) draw.Canvas {
	return draw.Crop(c, left, -right, bottom, -top)
}

// fit shortens a text to a width.
func fit(s text.Style, value string, width vg.Length) string {
	if s.Width(value) <= width {
		return value
	}
	runes := []rune(value)
	for len(runes) > 1 && s.Width(string(runes)+"…") > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}
