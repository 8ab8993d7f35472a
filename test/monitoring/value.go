// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"math"
	"strconv"
)

// gridColumns is the width of a dashboard.
const gridColumns = 24

// units are the units of Grafana that Format knows.
var units = []string{"bytes", "ops", "percentunit", "reqps", "s", "short"}

// Format returns a value in a unit of Grafana. decimals is nil for three significant digits.
func Format(value float64, unit string, decimals *int) string {
	switch {
	case math.IsNaN(value):
		return "-"
	case unit == "percentunit":
		return number(value*100, decimals) + " %"
	case unit == "bytes":
		return scaled(value, decimals, 1024, []string{" B", " KiB", " MiB", " GiB", " TiB"})
	case unit == "s":
		return seconds(value, decimals)
	case unit == "ops":
		return number(value, decimals) + " ops/s"
	case unit == "reqps":
		return number(value, decimals) + " req/s"
	default:
		return scaled(value, decimals, 1000, []string{"", " K", " Mil", " Bil"})
	}
}

func seconds(value float64, decimals *int) string {
	switch size := math.Abs(value); {
	case size == 0:
		return "0 s"
	case size < 0.001:
		return number(value*1e6, decimals) + " µs"
	case size < 1:
		return number(value*1e3, decimals) + " ms"
	case size < 120:
		return number(value, decimals) + " s"
	default:
		return number(value/60, decimals) + " min"
	}
}

func scaled(value float64, decimals *int, base float64, suffixes []string) string {
	i := 0
	for math.Abs(value) >= base && i < len(suffixes)-1 {
		value, i = value/base, i+1
	}
	return number(value, decimals) + suffixes[i]
}

// number returns a value with a number of decimals, or with three significant digits.
func number(value float64, decimals *int) string {
	if decimals != nil {
		return strconv.FormatFloat(value, 'f', *decimals, 64)
	}
	if math.Abs(value) >= 1000 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 3, 64), 64)
	if err != nil {
		return strconv.FormatFloat(value, 'g', 3, 64)
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
