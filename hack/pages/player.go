// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// watchLimit bounds the wait for a watch to print its next lines.
	watchLimit = 30 * time.Second
	// watchPoll is the precision of the times of a watch.
	watchPoll = time.Millisecond
)

// Player runs the commands of sections in a shell and shows them.
type Player struct {
	Shell  *Shell
	Screen *Screen
}

// UnmetError is the error of a command that failed, or whose output differs from that on the page.
type UnmetError struct {
	Expected, Seen string
}

// Error implements error.
func (u *UnmetError) Error() string { return "expected:\n" + u.Expected + "\nseen:\n" + u.Seen }

// Play runs the commands of a section until one fails. The remarks say how long the effects took
// that watches showed.
func (p *Player) Play(ctx context.Context, section Section) (remarks []string, err error) {
	for _, block := range section.Blocks {
		if block.NotRun != "" {
			continue
		}
		if block.RunIf != "" {
			_, code, err := p.Shell.Run(ctx, block.RunIf)
			if err != nil {
				return remarks, err
			}
			if code != 0 {
				continue
			}
		}
		p.Screen.note(block.Text)
		shown, err := p.PlayCommands(ctx, block.Commands)
		remarks = append(remarks, shown...)
		if err != nil {
			return remarks, err
		}
	}
	return remarks, nil
}

// PlayCommands runs the commands of a block. See [Player.Play].
func (p *Player) PlayCommands(ctx context.Context, commands []Command) (remarks []string, err error) {
	var w *watch
	defer func() { w.close() }()
	for _, command := range commands {
		took, err := p.playCommand(ctx, command, &w)
		if took > 0 {
			remarks = append(remarks, "effect after "+Readable(took))
		}
		if err != nil {
			return remarks, fmt.Errorf("line %d: %w", command.Line, err)
		}
	}
	return remarks, nil
}

// playCommand runs a command, and awaits the lines of a watch. A command that is a watch replaces
// w. took is the time from the first line of the watch to the last.
func (p *Player) playCommand(ctx context.Context, command Command, w **watch) (took time.Duration, err error) {
	p.Screen.command(command.Text)
	begin := time.Now()
	stop := p.Screen.progress(begin)
	output, code, err := p.Shell.Run(ctx, command.Text)
	stop()
	isWatch := strings.HasSuffix(command.Text, "&") && command.Expected != nil
	if !isWatch {
		p.Screen.output(output)
		p.Screen.took(time.Since(begin))
	}
	switch {
	case err != nil:
		return 0, err
	case code != 0:
		return 0, &UnmetError{Expected: "the command to succeed", Seen: strings.TrimSpace(fmt.Sprintf("%s\nexit code %d", output, code))}
	case command.Expected == nil:
		return 0, nil
	case isWatch:
		(*w).close()
		if *w, err = openWatch(p.Shell.outputFile()); err != nil {
			return 0, err
		}
		return 0, (*w).await(ctx, command.Expected, func(_ time.Duration, line string) { p.Screen.output(line) })
	}
	own := len(command.Expected)
	if *w != nil {
		for own > 0 && !matches(command.Expected[:own], strings.Split(output, "\n")) {
			own--
		}
	}
	if !matches(command.Expected[:own], strings.Split(output, "\n")) {
		return 0, &UnmetError{Expected: strings.Join(command.Expected, "\n"), Seen: output}
	}
	if own == len(command.Expected) {
		return 0, nil
	}
	err = (*w).await(ctx, command.Expected[own:], func(after time.Duration, line string) {
		took = after
		p.Screen.watched(after, line)
	})
	return took, err
}

// watch reads the output of a command in the background.
type watch struct {
	lines chan watchLine
	// quit is closed to end the reader, which then closes done.
	quit, done chan struct{}
}

// watchLine is a line of a watch with its time.
type watchLine struct {
	text string
	at   time.Time
}

// openWatch begins to read the output in a file.
func openWatch(path string) (*watch, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	w := &watch{lines: make(chan watchLine), quit: make(chan struct{}), done: make(chan struct{})}
	go w.read(file)
	return w, nil
}

// read reads lines until close. It reads ahead while nothing awaits lines, so that their times are
// right.
func (w *watch) read(file *os.File) {
	defer close(w.done)
	defer file.Close()
	ticker := time.NewTicker(watchPoll)
	defer ticker.Stop()
	reader := bufio.NewReader(file)
	partial := ""
	var ahead []watchLine
	for {
		part, err := reader.ReadString('\n')
		partial += part
		if err == nil {
			ahead = append(ahead, watchLine{text: strings.TrimSuffix(partial, "\n"), at: time.Now()})
			partial = ""
			continue
		}
		var next watchLine
		var lines chan watchLine
		if len(ahead) > 0 {
			next, lines = ahead[0], w.lines
		}
		select {
		case <-w.quit:
			return
		case lines <- next:
			ahead = ahead[1:]
		case <-ticker.C:
		}
	}
}

// await waits until the watch has printed lines that match the expected ones, in their order. It
// calls show for each of them, with the time since the first.
func (w *watch) await(ctx context.Context, expected []string, show func(after time.Duration, line string)) error {
	limit := time.NewTimer(watchLimit)
	defer limit.Stop()
	var first time.Time
	var seen []string
	for missing := expected; len(missing) > 0; {
		select {
		case line := <-w.lines:
			seen = append(seen, line.text)
			if !matchesLine(missing[0], line.text) {
				continue
			}
			if first.IsZero() {
				first = line.at
			}
			show(line.at.Sub(first), line.text)
			missing = missing[1:]
		case <-limit.C:
			return &UnmetError{
				Expected: "the watch to show\n" + strings.Join(expected, "\n"),
				Seen:     strings.Join(append(slices.Compact(seen), "then nothing until "+Readable(watchLimit)+" were over"), "\n"),
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// close ends the reader. A nil watch has none.
func (w *watch) close() {
	if w != nil {
		close(w.quit)
		<-w.done
	}
}
