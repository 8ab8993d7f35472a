// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/example/demoapp-controller/pkg/message"
)

// printable returns a text of the cluster in one line, without characters that would control a
// terminal: whoever writes a status or names a container is not trusted.
func printable(text string) string { return printableLine(message.OneLine(text)) }

// printableLine is printable for a line in which spaces and tabs matter.
func printableLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r != ' ' && r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

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

// table prints rows in columns. Only the last column is cut at the screen's width.
func (s screen) table(rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.text))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		used := 0
		for i, cell := range row {
			text, last := cell.text, i == len(row)-1
			if last {
				text = s.cut(text, used)
			}
			line.WriteString(s.paint(text, cell.color))
			if !last {
				padding := widths[i] - utf8.RuneCountInString(text) + 3
				line.WriteString(strings.Repeat(" ", padding))
				used += widths[i] + 3
			}
		}
		fmt.Fprintln(s.out, strings.TrimRight(line.String(), " "))
	}
}

// cut returns the beginning of a text that fits behind used columns.
func (s screen) cut(text string, used int) string {
	room := s.width - used
	if s.width == 0 || utf8.RuneCountInString(text) <= room {
		return text
	}
	if room < 2 {
		return ""
	}
	return string([]rune(text)[:room-1]) + "…"
}

// wrapped prints a text in lines that fit the screen, or 100 columns without one, behind an indent.
func (s screen) wrapped(text, indent string) {
	width := s.width
	if width == 0 {
		width = 100
	}
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(indent)+utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			fmt.Fprintln(s.out, indent+line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		fmt.Fprintln(s.out, indent+line)
	}
}
