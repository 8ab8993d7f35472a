// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"math"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/promql"
)

func TestWithoutGaps(t *testing.T) {
	t.Parallel()
	if filled := withoutGaps([]int64{70, 10, 20, 20, 50}); !slices.Equal(filled, []int64{10, 20, 30, 40, 50, 60, 70}) {
		t.Errorf("the times are %d", filled)
	}
	if filled := withoutGaps(nil); len(filled) != 0 {
		t.Errorf("no times become %d", filled)
	}
}

func TestPartsEndAtGaps(t *testing.T) {
	t.Parallel()
	found := parts([]promql.FPoint{{T: 1000, F: 1}, {T: 2000, F: 2}, {T: 3000, F: math.NaN()}, {T: 4000, F: 4}, {T: 6000, F: 6}})
	var lengths []int
	for _, part := range found {
		lengths = append(lengths, len(part))
	}
	if !slices.Equal(lengths, []int{2, 1, 1}) {
		t.Errorf("the parts have %d points", lengths)
	}
}
