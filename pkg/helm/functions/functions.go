// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package functions

import (
	"fmt"
	"text/template"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

// Limits of the items and bytes that template functions produce from numbers in one rendering.
// Charts take such numbers from values, and one large number would use up the memory.
const (
	maxRenderedItems = 100_000
	maxRenderedBytes = manifest.MaxBytes
	// maxRenderedNumber bounds the numbers, whose sums must not overflow.
	maxRenderedNumber = 1 << 30
)

// counted returns the functions that produce a number of items or bytes, with limits for the
// rendering.
func (r *Rendering) counted(helm template.FuncMap) template.FuncMap {
	var (
		until     = helm["until"].(func(int) []int)
		untilStep = helm["untilStep"].(func(int, int, int) []int)
		seq       = helm["seq"].(func(...int) string)
		repeat    = helm["repeat"].(func(int, string) string)
		randBytes = helm["randBytes"].(func(int) (string, error))
	)
	bounded := template.FuncMap{
		"until": func(count int) ([]int, error) {
			return checked(r.list("until", 0, count, 1), func() []int { return until(count) })
		},
		"untilStep": func(start, stop, step int) ([]int, error) {
			return checked(r.list("untilStep", start, stop, step), func() []int { return untilStep(start, stop, step) })
		},
		"seq": func(numbers ...int) (string, error) {
			var err error
			switch len(numbers) {
			case 1:
				err = r.list("seq", 1, numbers[0], 1)
			case 2:
				err = r.list("seq", numbers[0], numbers[1], 1)
			case 3:
				err = r.list("seq", numbers[0], numbers[2], numbers[1])
			}
			return checked(err, func() string { return seq(numbers...) })
		},
		"repeat": func(count int, text string) (string, error) {
			return checked(r.write("repeat", count, len(text)), func() string { return repeat(count, text) })
		},
		"randBytes": func(count int) (string, error) {
			if err := r.write("randBytes", count, 1); err != nil {
				return "", err
			}
			return randBytes(count)
		},
	}
	for _, name := range []string{"randAlpha", "randAlphaNum", "randAscii", "randNumeric"} {
		random := helm[name].(func(int) string)
		bounded[name] = func(count int) (string, error) {
			return checked(r.write(name, count, 1), func() string { return random(count) })
		}
	}
	return bounded
}

// checked returns the result of a function unless there is an error.
func checked[T any](err error, function func() T) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return function(), nil
}

// list counts the items between two numbers.
func (r *Rendering) list(function string, start, stop, step int) error {
	for _, number := range []int{start, stop, step} {
		if number > maxRenderedNumber || number < -maxRenderedNumber {
			return fmt.Errorf("%s: %d is more than the limit of %d: use smaller numbers", function, number, maxRenderedNumber)
		}
	}
	r.items += max(stop-start, start-stop) / max(step, -step, 1)
	if r.items > maxRenderedItems {
		return fmt.Errorf("%s: one rendering made %d items, more than the limit of %d: use smaller numbers",
			function, r.items, maxRenderedItems)
	}
	return nil
}

// write counts the bytes of a repeated text.
func (r *Rendering) write(function string, count, size int) error {
	r.bytes += min(max(count, 0), maxRenderedNumber) * min(size, maxRenderedNumber)
	if r.bytes > maxRenderedBytes {
		return fmt.Errorf("%s: one rendering made %d bytes, more than the limit of %d: use smaller numbers",
			function, r.bytes, maxRenderedBytes)
	}
	return nil
}
