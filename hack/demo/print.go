// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// ANSI sequences of a terminal.
const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	cyan  = "\x1b[36m"
	reset = "\x1b[0m"
)

// noteWidth is the width of the notes of steps.
const noteWidth = 100

// screen prints the tour for the user.
type screen struct {
	out io.Writer
	// styled is true on a terminal.
	styled bool
}

// newScreen returns a screen on a file. It uses styles if the file is a terminal with colors and NO_COLOR is not set
// (https://no-color.org).
func newScreen(file *os.File) *screen {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &screen{
		out:    file,
		styled: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}

func (s *screen) style(codes, text string) string {
	if !s.styled {
		return text
	}
	return codes + text + reset
}

// printf writes to the terminal. A failure cannot be reported anywhere.
func (s *screen) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

func (s *screen) heading(text string) { s.printf("\n%s\n", s.style(bold, text)) }

func (s *screen) info(format string, args ...any) { s.printf("  "+format+"\n", args...) }

func (s *screen) step(number, of int, st step) {
	s.heading(fmt.Sprintf("[%d/%d] %s", number, of, st.title))
	for _, l := range wrap(st.note, noteWidth) {
		s.info("%s", s.style(dim, l))
	}
}

func (s *screen) command(command string) { s.printf("\n  %s\n", s.style(cyan, "$ "+command)) }

func (s *screen) output(text string) {
	text = strings.TrimRight(text, "\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	for l := range strings.SplitSeq(text, "\n") {
		s.printf("    %s\n", l)
	}
}

func (s *screen) took(d time.Duration) { s.printf("    %s\n", s.style(dim, "took "+readable(d))) }

// watched shows a line of a watch with the time since the change.
func (s *screen) watched(after time.Duration, text string) {
	s.printf("    %s %s\n", s.style(dim, fmt.Sprintf("watch +%-6s", readable(after))), text)
}

// failure shows why a step failed.
func (s *screen) failure(err error) {
	var u *unmet
	if !errors.As(err, &u) {
		s.printf("\n  %s\n", s.style(bold+red, "Did not happen: "+err.Error()))
		return
	}
	s.printf("\n  %s\n", s.style(bold+red, "Did not happen"))
	s.printf("    expected: %s\n    seen:     %s\n", u.expected, u.seen)
}

// summary shows the outcome of each step, and the totals.
func (s *screen) summary(outcomes []outcome) {
	s.heading("Summary")
	var table strings.Builder
	columns := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	var total time.Duration
	done := 0
	for i, o := range outcomes {
		total += o.took
		took := readable(o.took)
		if !o.tried {
			took = "-"
		}
		if o.word() == wordDone {
			done++
		}
		_, _ = fmt.Fprintf(columns, "  %d\t%s\t%s\t%s\t%s\n", i+1, o.word(), took, o.title, strings.Join(o.remarks, ", "))
	}
	_ = columns.Flush() // Into memory, where nothing can fail.
	// Colors are added last, since a tabwriter counts their codes as columns.
	colors := map[string]string{wordDone: green, wordFailed: bold + red, wordUntried: dim}
	for i, l := range strings.Split(strings.TrimRight(table.String(), "\n"), "\n") {
		word := outcomes[i].word()
		s.printf("%s\n", strings.Replace(strings.TrimRight(l, " "), word, s.style(colors[word], word), 1))
	}
	s.printf("\n  %d of %d steps in %s.\n", done, len(outcomes), readable(total))
}

// The words of the summary.
const (
	wordDone    = "ok"
	wordFailed  = "FAILED"
	wordUntried = "not tried"
)

func (o outcome) word() string {
	switch {
	case o.err != nil:
		return wordFailed
	case o.tried:
		return wordDone
	default:
		return wordUntried
	}
}

// readable formats a duration with a useful number of digits.
func readable(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}

// wrap breaks text at spaces into lines of at most width characters.
func wrap(text string, width int) []string {
	var lines []string
	var current string
	for word := range strings.FieldsSeq(text) {
		switch {
		case current == "":
			current = word
		case len(current)+1+len(word) > width:
			lines = append(lines, current)
			current = word
		default:
			current += " " + word
		}
	}
	if current != "" {
		lines = append(lines, current)
	}
	return lines
}
