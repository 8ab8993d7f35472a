// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answer is the result of a command in a fake shell.
type answer struct {
	output string
	err    error
	// lines are those of a watch.
	lines []line
	// then is called when the command runs.
	then func()
}

// fakeShell answers from a table and records its commands.
type fakeShell struct {
	answers map[string]answer
	asked   []string
}

func (f *fakeShell) run(_ context.Context, command string) (string, error) {
	f.asked = append(f.asked, command)
	a := f.answers[command]
	if a.then != nil {
		a.then()
	}
	return a.output, a.err
}

func (f *fakeShell) stream(_ context.Context, command string) (<-chan line, error) {
	f.asked = append(f.asked, command)
	a := f.answers[command]
	lines := make(chan line, len(a.lines))
	for _, l := range a.lines {
		lines <- l
	}
	close(lines)
	return lines, a.err
}

// ticking returns a clock that advances by a second at each call.
func ticking() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

func watched(texts ...string) []line {
	var lines []line
	for i, text := range texts {
		lines = append(lines, line{text: text, at: time.UnixMilli(int64(i) * 20)})
	}
	return lines
}

func TestPlay(t *testing.T) {
	errExit := errors.New("it ended with exit status 1")
	scaled := &effect{watch: "watch", before: "5", after: "1", verb: "corrected"}
	tests := map[string]struct {
		answers map[string]answer
		acts    []act
		// wantErr is the error of the step, "" for none.
		wantErr    string
		wantAsked  []string
		wantRemark string
		// wantScreen and wantNoScreen are parts of the output that must appear and must not appear.
		wantScreen   []string
		wantNoScreen []string
	}{
		"commands run in order, are shown, and so is their output": {
			answers:    map[string]answer{"a": {output: "one\ntwo\n"}, "b": {}},
			acts:       []act{{command: "a"}, {command: "b"}},
			wantAsked:  []string{"a", "b", "next"},
			wantScreen: []string{"  $ a\n    one\n    two\n    took 1.0s\n", "  $ b\n    took 1.0s\n"},
		},
		"a command that fails ends the step": {
			answers:    map[string]answer{"a": {output: "Warning\nError: no\n", err: errExit}},
			acts:       []act{{command: "a"}, {command: "b"}},
			wantErr:    "expected the command to succeed, saw Error: no; it ended with exit status 1",
			wantAsked:  []string{"a"},
			wantScreen: []string{"    Warning\n    Error: no\n"},
		},
		"a goal says what the command was for": {
			answers:   map[string]answer{"a": {err: errExit}},
			acts:      []act{{command: "a", goal: "peace"}},
			wantErr:   "expected peace, saw it ended with exit status 1",
			wantAsked: []string{"a"},
		},
		"an output as expected": {
			answers:   map[string]answer{"a": {output: " 2\n"}, "b": {output: "x y z"}},
			acts:      []act{{command: "a", want: prints("2")}, {command: "b", want: shows("z", "x")}},
			wantAsked: []string{"a", "b", "next"},
		},
		"an output that differs": {
			answers:   map[string]answer{"a": {output: "3\n"}},
			acts:      []act{{command: "a", want: prints("2")}},
			wantErr:   `expected the output "2", saw "3"`,
			wantAsked: []string{"a"},
		},
		"an output that lacks a part": {
			answers:   map[string]answer{"a": {output: "x"}},
			acts:      []act{{command: "a", want: shows("x", "y")}},
			wantErr:   `expected output with x, y, saw "x"`,
			wantAsked: []string{"a"},
		},
		"an output with a key that should not be there": {
			answers:   map[string]answer{"a": {output: "x hush"}},
			acts:      []act{{command: "a", want: shows("x").without("hush")}},
			wantErr:   `expected output with x, and without the key, saw "x hush"`,
			wantAsked: []string{"a"},
		},
		"a secret output is handed on and not shown": {
			answers:      map[string]answer{"a": {output: "hush"}},
			acts:         []act{{command: "a", secret: true, keep: func(string) error { return nil }}},
			wantAsked:    []string{"a", "next"},
			wantScreen:   []string{"(not shown)"},
			wantNoScreen: []string{"hush"},
		},
		"an output that cannot be used": {
			answers:   map[string]answer{"a": {output: "x"}},
			acts:      []act{{command: "a", keep: func(string) error { return errors.New("no token") }}},
			wantErr:   "use what the command returned: no token",
			wantAsked: []string{"a"},
		},
		"an act that is not a command": {
			acts:       []act{{command: "operator &", do: func(context.Context) (string, error) { return "ready", nil }}},
			wantAsked:  []string{"next"},
			wantScreen: []string{"$ operator &\n    ready\n"},
		},
		"an effect is timed from the change to its correction": {
			answers: map[string]answer{
				"watch": {lines: watched("1", "1", "5", "5", "1", "1")},
				"scale": {output: "scaled\n"},
			},
			acts:       []act{{command: "scale", effect: scaled}},
			wantAsked:  []string{"watch", "scale", "next"},
			wantRemark: "corrected after 40ms",
			wantScreen: []string{"  $ watch &\n    1\n\n  $ scale\n    scaled\n", "watch +0s     5\n", "watch +40ms   1\n"},
		},
		"an effect that does not come": {
			answers:   map[string]answer{"watch": {lines: watched("1", "5", "4")}},
			acts:      []act{{command: "scale", effect: scaled}},
			wantErr:   `expected the watch to show "5" and then "1", saw ["5" "4"], then the watch ended`,
			wantAsked: []string{"watch", "scale"},
		},
		"a command that fails is not waited for": {
			answers:   map[string]answer{"watch": {lines: watched("1", "5", "1")}, "scale": {err: errExit}},
			acts:      []act{{command: "scale", effect: scaled}},
			wantErr:   "expected the command to succeed, saw it ended with exit status 1",
			wantAsked: []string{"watch", "scale"},
		},
		"a watch that shows nothing": {
			acts:      []act{{command: "scale", effect: scaled}},
			wantErr:   "expected the watch to show the object, saw the watch ended",
			wantAsked: []string{"watch"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			sh := &fakeShell{answers: test.answers}
			p := &player{shell: sh, screen: &screen{out: &out}, now: ticking(), limit: time.Minute}
			outcomes := p.play(t.Context(), []step{
				{title: "first", note: "Look.", acts: test.acts},
				{title: "second", acts: []act{{command: "next"}}},
			})

			if got := message(outcomes[0].err); got != test.wantErr {
				t.Errorf("error %q, want %q", got, test.wantErr)
			}
			if tried := outcomes[1].tried; tried != (test.wantErr == "") {
				t.Errorf("second step tried: %t", tried)
			}
			if diff := cmp.Diff(test.wantAsked, sh.asked); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
			if got := strings.Join(outcomes[0].remarks, ";"); got != test.wantRemark {
				t.Errorf("remarks %q, want %q", got, test.wantRemark)
			}
			for _, want := range test.wantScreen {
				if !strings.Contains(out.String(), want) {
					t.Errorf("screen lacks %q:\n%s", want, out.String())
				}
			}
			for _, hidden := range test.wantNoScreen {
				if strings.Contains(out.String(), hidden) {
					t.Errorf("screen shows %q:\n%s", hidden, out.String())
				}
			}
		})
	}
}

// TestPlayStopsForTheReasonOfTheContext asserts that an interrupted tour reports the cause of the interruption, not its
// effect on a command.
func TestPlayStopsForTheReasonOfTheContext(t *testing.T) {
	crash := errors.New("the operator ended by itself")
	ctx, cancel := context.WithCancelCause(t.Context())
	sh := &fakeShell{answers: map[string]answer{
		"a": {then: func() { cancel(crash) }, err: errors.New("signal: terminated")},
	}}
	p := &player{shell: sh, screen: &screen{out: &bytes.Buffer{}}, now: ticking(), limit: time.Minute}
	outcomes := p.play(ctx, []step{{acts: []act{{command: "a"}, {command: "b"}}}, {acts: []act{{command: "c"}}}})
	if !errors.Is(outcomes[0].err, crash) {
		t.Errorf("error %v, want %v", outcomes[0].err, crash)
	}
	if diff := cmp.Diff([]string{"a"}, sh.asked); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
