// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"strings"

	"github.com/pmezard/go-difflib/difflib"
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
	before, after := linesOf(d.Before), linesOf(d.After)
	var rows []DiffRow
	for _, group := range difflib.NewMatcher(before, after).GetGroupedOpCodes(contextLines) {
		gap := group[0].I1 > 0 || group[0].J1 > 0
		for _, code := range group {
			for i, j := code.I1, code.J1; i < code.I2 || j < code.J2; i, j = i+1, j+1 {
				row := DiffRow{Gap: gap, Equal: code.Tag == 'e'}
				if i < code.I2 {
					row.Left, row.Before = i+1, before[i]
				}
				if j < code.J2 {
					row.Right, row.After = j+1, after[j]
				}
				rows = append(rows, row)
				gap = false
			}
		}
	}
	return rows
}

// linesOf returns the lines of a text without their line breaks.
func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
