// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"math"
	"testing"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	one := 1
	for _, test := range []struct {
		value    float64
		unit     string
		decimals *int
		text     string
	}{
		{0, "short", nil, "0"},
		{12, "short", nil, "12"},
		{1.2345, "short", nil, "1.23"},
		{12345, "short", nil, "12.3 K"},
		{0.0123, "percentunit", &one, "1.2 %"},
		{64 << 20, "bytes", nil, "64 MiB"},
		{0, "s", nil, "0 s"},
		{0.0000123, "s", nil, "12.3 µs"},
		{0.25, "s", nil, "250 ms"},
		{90, "s", nil, "90 s"},
		{600, "s", nil, "10 min"},
		{3.14159, "ops", &one, "3.1 ops/s"},
		{2, "reqps", nil, "2 req/s"},
		{math.NaN(), "short", nil, "-"},
	} {
		if text := Format(test.value, test.unit, test.decimals); text != test.text {
			t.Errorf("Format(%v, %q) = %q, and has to be %q", test.value, test.unit, text, test.text)
		}
	}
}
