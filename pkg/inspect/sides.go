// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// DiffRow is a row of a side-by-side comparison. A side without a line has the number 0.
type DiffRow struct {
	// Gap says that equal lines are left out before the row.
	Gap    bool   `json:"gap,omitempty"`
	Equal  bool   `json:"equal,omitempty"`
	Left   int    `json:"left,omitempty"`
	Before string `json:"before,omitempty"`
	Right  int    `json:"right,omitempty"`
	After  string `json:"after,omitempty"`
}

// SideBySide returns the difference as rows of two columns, with a few equal lines around each
// change.
func (d Difference) SideBySide() []DiffRow {
	rows := d.rows()
	// until is the index after the last row shown for a change.
	shown, until := rows[:0:0], 0
	for i, row := range rows {
		if row.Equal {
			continue
		}
		for j := max(until, i-contextLines); j < min(i+contextLines+1, len(rows)); j++ {
			next := rows[j]
			next.Gap = j > until
			shown, until = append(shown, next), j+1
		}
	}
	return shown
}

// rows returns all rows. A change has its lines on both sides in the same rows.
func (d Difference) rows() []DiffRow {
	var rows []DiffRow
	left, right := 0, 0
	add := func(before, after []string) {
		for i := range max(len(before), len(after)) {
			var row DiffRow
			if i < len(before) {
				left++
				row.Left, row.Before = left, before[i]
			}
			if i < len(after) {
				right++
				row.Right, row.After = right, after[i]
			}
			rows = append(rows, row)
		}
	}
	same := func(text string) {
		first := len(rows)
		add(linesOf(text), linesOf(text))
		for i := range rows[first:] {
			rows[first+i].Equal = true
		}
	}
	end := 0
	for _, edit := range udiff.Lines(d.Before, d.After) {
		same(d.Before[end:edit.Start])
		add(linesOf(d.Before[edit.Start:edit.End]), linesOf(edit.New))
		end = edit.End
	}
	same(d.Before[end:])
	return rows
}

// linesOf returns the lines of a text without their line breaks.
func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
