// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Codes are ANSI sequences of a terminal.
type Codes string

// The styles of a screen.
const (
	Bold  Codes = "\x1b[1m"
	Dim   Codes = "\x1b[2m"
	Red   Codes = "\x1b[31m"
	Green Codes = "\x1b[32m"
	cyan  Codes = "\x1b[36m"
	reset       = "\x1b[0m"
)

const (
	// noteWidth is the width of the text between commands.
	noteWidth = 100
	// progressInterval is the time between two reports of a command that takes long.
	progressInterval = 30 * time.Second
)

// Screen shows commands with their output.
type Screen struct {
	out io.Writer
	// styled is true on a terminal.
	styled bool
}

// NewScreen returns a screen without styles.
func NewScreen(out io.Writer) *Screen { return &Screen{out: out} }

// NewTerminal returns a screen on a file. It has styles if the file is a terminal with colors and
// NO_COLOR is not set (https://no-color.org).
func NewTerminal(file *os.File) *Screen {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &Screen{out: file, styled: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Style returns a text in a style.
func (s *Screen) Style(codes Codes, text string) string {
	if !s.styled {
		return text
	}
	return string(codes) + text + reset
}

// Printf writes to the screen. A failure cannot be reported anywhere.
func (s *Screen) Printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// Heading shows the title of a section.
func (s *Screen) Heading(text string) { s.Printf("\n%s\n", s.Style(Bold, text)) }

// Failure shows why a section failed.
func (s *Screen) Failure(err error) {
	var u *UnmetError
	if !errors.As(err, &u) {
		s.Printf("\n  %s\n", s.Style(Bold+Red, "Did not happen: "+err.Error()))
		return
	}
	s.Printf("\n  %s\n    expected:\n", s.Style(Bold+Red, "Did not happen"))
	s.indented("      ", u.Expected)
	s.Printf("    seen:\n")
	s.indented("      ", u.Seen)
}

// note shows the text above a block, broken at spaces into lines.
func (s *Screen) note(text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > noteWidth {
			s.Printf("  %s\n", s.Style(Dim, line))
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	if line != "" {
		s.Printf("  %s\n", s.Style(Dim, line))
	}
}

func (s *Screen) command(text string) {
	s.Printf("\n  %s\n", s.Style(cyan, "$ "+strings.ReplaceAll(text, "\n", "\n    ")))
}

func (s *Screen) output(text string) {
	if strings.TrimSpace(text) != "" {
		s.indented("    ", text)
	}
}

func (s *Screen) indented(indent, text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		s.Printf("%s%s\n", indent, line)
	}
}

func (s *Screen) took(d time.Duration) { s.Printf("    %s\n", s.Style(Dim, "took "+Readable(d))) }

// watched shows a line of a watch with the time since the first line.
func (s *Screen) watched(after time.Duration, text string) {
	s.Printf("    %s %s\n", s.Style(Dim, fmt.Sprintf("watch +%-6s", Readable(after))), text)
}

// progress shows at intervals for how long a command has been running, until stop is called.
func (s *Screen) progress(begin time.Time) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case now := <-ticker.C:
				s.Printf("    %s\n", s.Style(Dim, "running for "+now.Sub(begin).Round(time.Second).String()))
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// Readable formats a duration with a useful number of digits.
func Readable(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}
