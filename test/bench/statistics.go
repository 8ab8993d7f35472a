// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// result has the figures of all rounds of one size, by contender.
type result struct {
	size    int
	figures map[string][]figures
}

// checkFloor returns an error if the floor was slower than the operator in the median of the rounds.
func (r result) checkFloor() error {
	var errs []error
	for _, phase := range []struct {
		name string
		of   func(figures) time.Duration
	}{
		{"install", func(f figures) time.Duration { return f.install }},
		{"upgrade", func(f figures) time.Duration { return f.upgrade }},
	} {
		if ratio := r.ratio(operatorName, floorName, phase.of); ratio.median < 1 {
			errs = append(errs, fmt.Errorf("%d DemoApps: %s: the floor was slower than the operator (%s): it is no floor",
				r.size, phase.name, ratio.text(2, "")))
		}
	}
	return errors.Join(errs...)
}

// spread summarizes the values of several rounds.
type spread struct {
	median, least, most float64
}

// spreadOf returns the spread of values, zero without values.
func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return spread{median: median, least: sorted[0], most: sorted[len(sorted)-1]}
}

// text returns the median and, if the rounds differ, the least and the most.
func (s spread) text(decimals int, unit string) string {
	median := fmt.Sprintf("%.*f", decimals, s.median)
	least, most := fmt.Sprintf("%.*f", decimals, s.least), fmt.Sprintf("%.*f", decimals, s.most)
	if least == most {
		return median + unit
	}
	return fmt.Sprintf("%s%s (%s to %s)", median, unit, least, most)
}

// of returns the spread of a figure over the rounds of a contender.
func (r result) of(contender string, figure func(figures) float64) spread {
	var values []float64
	for _, f := range r.figures[contender] {
		values = append(values, figure(f))
	}
	return spreadOf(values)
}

// seconds returns the spread of a time over the rounds of a contender, in seconds.
func (r result) seconds(contender string, figure func(figures) time.Duration) spread {
	return r.of(contender, func(f figures) float64 { return figure(f).Seconds() })
}

// milliseconds returns the spread of a time over the rounds of a contender, in milliseconds.
func (r result) milliseconds(contender string, figure func(figures) time.Duration) spread {
	return r.of(contender, func(f figures) float64 { return milliseconds(figure(f)) })
}

// each returns the spread of a number over the rounds of a contender, for each DemoApp.
func (r result) each(contender string, figure func(figures) float64) spread {
	return r.of(contender, func(f figures) float64 { return figure(f) / float64(r.size) })
}

// ratio returns the spread of the ratios of two contenders, each of the same round.
func (r result) ratio(of, to string, figure func(figures) time.Duration) spread {
	var ratios []float64
	for round, f := range r.figures[of] {
		if base := figure(r.figures[to][round]); base > 0 {
			ratios = append(ratios, float64(figure(f))/float64(base))
		}
	}
	return spreadOf(ratios)
}

// pooled returns the times of all rounds of the operator together, sorted.
func (r result) pooled(times func(figures) []time.Duration) []time.Duration {
	var all []time.Duration
	for _, f := range r.figures[operatorName] {
		all = append(all, times(f)...)
	}
	slices.Sort(all)
	return all
}

// quantile returns a quantile of sorted times, by the nearest rank.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
