// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

// shell runs commands.
type shell interface {
	// run runs a command to its end and returns its output. An exit code other than 0 is an error.
	run(ctx context.Context, command string) (output string, err error)
	// stream starts a command and sends each line of its output. The end of ctx ends the command. The end of the
	// command closes the channel.
	stream(ctx context.Context, command string) (<-chan line, error)
}

// line is a line of output with its time.
type line struct {
	text string
	at   time.Time
}

// player plays steps.
type player struct {
	shell  shell
	screen *screen
	now    func() time.Time
	// limit bounds one act.
	limit time.Duration
}

// outcome is the result of a step.
type outcome struct {
	title string
	took  time.Duration
	// remarks are repeated in the summary.
	remarks []string
	// err says why the step failed. It is nil for a step that succeeded, and for one that was not tried.
	err   error
	tried bool
}

// play plays the steps in order and stops at the first failure. It returns an outcome for each step, including those
// that it did not reach.
func (p *player) play(ctx context.Context, steps []step) []outcome {
	outcomes := make([]outcome, len(steps))
	failed := false
	for i, s := range steps {
		outcomes[i].title = s.title
		if failed {
			continue
		}
		p.screen.step(i+1, len(steps), s)
		outcomes[i] = p.playStep(ctx, s)
		failed = outcomes[i].err != nil
	}
	return outcomes
}

func (p *player) playStep(ctx context.Context, s step) outcome {
	result := outcome{title: s.title, tried: true}
	begin := p.now()
	for _, a := range s.acts {
		remark, err := p.playAct(ctx, a)
		if remark != "" {
			result.remarks = append(result.remarks, remark)
		}
		if err != nil {
			result.err = err
			break
		}
	}
	result.took = p.now().Sub(begin)
	return result
}

// playAct plays one act. The remark, if any, says how long the effect took.
func (p *player) playAct(ctx context.Context, a act) (remark string, err error) {
	// The cause of an ended context says more than kubectl's message does.
	defer func() {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	limited, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	if a.effect == nil {
		return "", p.playCommand(limited, a)
	}
	lines, err := p.beginWatch(limited, a.effect)
	if err != nil {
		return "", err
	}
	defer func() {
		cancel()
		for range lines { // Until the watch has ended.
		}
	}()
	if err := p.playCommand(limited, a); err != nil {
		return "", err
	}
	return p.awaitEffect(limited, a.effect, lines)
}

func (p *player) playCommand(ctx context.Context, a act) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.screen.command(a.command)
	begin := p.now()
	output, err := p.perform(ctx, a)
	took := p.now().Sub(begin)
	if a.secret && err == nil {
		p.screen.output("(not shown)")
	} else {
		p.screen.output(output)
	}
	p.screen.took(took)
	switch {
	case err != nil:
		return &unmet{expected: cmp.Or(a.goal, "the command to succeed"), seen: lastLine(output) + err.Error()}
	case a.want.holds != nil && !a.want.holds(output):
		return &unmet{expected: a.want.text, seen: fmt.Sprintf("%q", strings.TrimSpace(output))}
	case a.keep == nil:
		return nil
	}
	if err := a.keep(output); err != nil {
		return fmt.Errorf("use what the command returned: %w", err)
	}
	return nil
}

// lastLine returns the last line of an output, where commands print their error, with a separator.
func lastLine(output string) string {
	output = strings.TrimSpace(output)
	if output == "" {
		return ""
	}
	return output[strings.LastIndexByte(output, '\n')+1:] + "; "
}

func (p *player) perform(ctx context.Context, a act) (string, error) {
	if a.do != nil {
		return a.do(ctx)
	}
	return p.shell.run(ctx, a.command)
}

// beginWatch starts the watch of an effect and returns when the watch has shown the object's current state.
func (p *player) beginWatch(ctx context.Context, e *effect) (<-chan line, error) {
	p.screen.command(e.watch + " &")
	lines, err := p.shell.stream(ctx, e.watch)
	if err != nil {
		return nil, err
	}
	first, open := <-lines
	if !open {
		return nil, &unmet{expected: "the watch to show the object", seen: "the watch ended"}
	}
	p.screen.output(first.text)
	return lines, nil
}

// awaitEffect reads the watch until the operator has undone what the command did.
func (p *player) awaitEffect(ctx context.Context, e *effect, lines <-chan line) (remark string, err error) {
	var changed time.Time
	var seen []string
	for l := range lines {
		seen = append(seen, l.text)
		switch {
		case changed.IsZero() && strings.HasPrefix(l.text, e.before):
			changed = l.at
			p.screen.watched(0, l.text)
		case !changed.IsZero() && strings.HasPrefix(l.text, e.after):
			took := l.at.Sub(changed)
			p.screen.watched(took, l.text)
			return fmt.Sprintf("%s after %s", e.verb, readable(took)), nil
		}
	}
	why := "then the watch ended"
	if ctx.Err() != nil {
		why = "then nothing until " + readable(p.limit) + " were over"
	}
	return "", &unmet{
		expected: fmt.Sprintf("the watch to show %q and then %q", e.before, e.after),
		seen:     fmt.Sprintf("%q, %s", seen, why),
	}
}

// unmet is the error of a step that failed.
type unmet struct {
	expected, seen string
}

// Error implements error.
func (u *unmet) Error() string { return "expected " + u.expected + ", saw " + u.seen }
