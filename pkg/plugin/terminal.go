// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/example/demoapp-controller/pkg/message"
)

// printable returns a text of the cluster in one line, without characters that would control a
// terminal: authors of a status or of a container's name are not trusted.
func printable(text string) string { return message.Printable(message.OneLine(text)) }

// color is the number of an ANSI color; 0 is the terminal's own.
type color int

const (
	red    color = 31
	green  color = 32
	yellow color = 33
	blue   color = 34
	grey   color = 90
)

// cell is a text in a table.
type cell struct {
	text  string
	color color
}

// screen lays out text. On a terminal, lines end at its width, and it has colors unless the
// environment has NO_COLOR (https://no-color.org).
type screen struct {
	out io.Writer
	// width is the number of columns; 0 is no limit.
	width  int
	colors bool
}

// screen returns the screen of the standard output.
func (c *command) screen() screen {
	s := screen{out: c.streams.Out}
	if file, ok := c.streams.Out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		s.width, _, _ = term.GetSize(int(file.Fd()))
		s.colors = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return s
}

// paint returns a text in a color.
func (s screen) paint(text string, in color) string {
	if !s.colors || in == 0 || text == "" {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", in, text)
}

// Columns are cut to fit the screen: columns of names, which people type into the next command, are
// cut only if every other column has its least width.
const (
	// minColumn is the least width of a column. Columns of names have at least minName while
	// another column can be cut, and minShortName after that. minLast is the room for the last
	// column.
	minColumn, minName, minShortName, minLast = 5, 24, 8, 9
	// gap is the space between two columns, and screenGap that on a screen.
	gap, screenGap = 3, 2
)

// table prints rows in columns. Rows that are added later have the same columns.
type table struct {
	screen

	widths []int
	// names is the number of columns with names, which come first.
	names int
}

// table prints rows in columns.
func (s screen) table(rows [][]cell) { (&table{screen: s}).add(rows) }

// add prints rows. Columns are as wide as their widest text so far.
func (t *table) add(rows [][]cell) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell.text))
		}
	}
	widths, between := t.fitting(), t.gap()
	for _, row := range rows {
		var line strings.Builder
		used := 0
		for i, cell := range row {
			text, last := cell.text, i == len(row)-1
			switch {
			case last:
				text = t.cut(text, used)
			case t.width > 0 && i < t.names:
				text = clipMiddle(text, widths[i])
			case t.width > 0:
				text = clip(text, widths[i])
			}
			line.WriteString(t.paint(text, cell.color))
			if !last {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+between))
				used += widths[i] + between
			}
		}
		fmt.Fprintln(t.out, strings.TrimRight(line.String(), " "))
	}
}

func (t *table) gap() int {
	if t.width > 0 {
		return screenGap
	}
	return gap
}

// fitting returns the widths with which the columns fit the screen: the columns that can spare most
// are cut.
func (t *table) fitting() []int {
	widths := slices.Clone(t.widths)
	if t.width == 0 || len(widths) < 2 {
		return widths
	}
	columns := widths[:len(widths)-1]
	used := min(widths[len(widths)-1], minLast)
	for _, width := range columns {
		used += width + t.gap()
	}
	for _, least := range []int{minName, minShortName} {
		for used > t.width {
			widest, spare := 0, 0
			for i, width := range columns {
				keep := minColumn
				if i < t.names {
					keep = least
				}
				if width-keep > spare {
					widest, spare = i, width-keep
				}
			}
			if spare == 0 {
				break
			}
			columns[widest]--
			used--
		}
	}
	return widths
}

// cut returns the beginning of a text that fits behind used columns.
func (s screen) cut(text string, used int) string {
	if s.width == 0 {
		return text
	}
	return clip(text, s.width-used)
}

// clip returns the beginning of a text that fits a number of columns.
func clip(text string, room int) string {
	if utf8.RuneCountInString(text) <= room {
		return text
	}
	if room < 2 {
		return ""
	}
	return string([]rune(text)[:room-1]) + "…"
}

// clipMiddle returns the beginning and the end of a name that fit a number of columns: names often
// differ at the end.
func clipMiddle(name string, room int) string {
	runes := []rune(name)
	if len(runes) <= room || room < 2 {
		return clip(name, room)
	}
	end := (room - 1) / 2
	return string(runes[:room-1-end]) + "…" + string(runes[len(runes)-end:])
}

// wrapped prints a text in lines that fit the screen, or 100 columns without one, behind an indent.
func (s screen) wrapped(text, indent string) { s.wrappedBehind(cell{}, text, indent) }

// wrappedBehind prints a text like wrapped, behind a lead such as "Ready:".
func (s screen) wrappedBehind(lead cell, text, indent string) {
	width := s.width
	if width == 0 {
		width = 100
	}
	line, isFirst := lead.text, true
	end := func() {
		if isFirst && lead.text != "" {
			line = s.paint(lead.text, lead.color) + strings.TrimPrefix(line, lead.text)
		}
		fmt.Fprintln(s.out, indent+line)
		line, isFirst = "", false
	}
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(indent)+utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			end()
		}
		if line != "" {
			line += " "
		}
		line += word
		// On a screen, a word that is longer than a line is broken.
		for s.width > 0 && len(indent)+utf8.RuneCountInString(line) > width {
			runes := []rune(line)
			room := max(1, width-len(indent))
			line = string(runes[:room])
			rest := string(runes[room:])
			end()
			line = rest
		}
	}
	if line != "" {
		end()
	}
}
