// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"regexp"
	"strings"
)

// Section is the part of a page below a heading of the second level.
type Section struct {
	// Title is the heading. The section above the first such heading has none.
	Title  string
	Blocks []Block
}

// Block is a block of commands.
type Block struct {
	// Text is the text between the block and the heading or the block above it, in one line and
	// without links.
	Text string
	// NotRun is the reason why the block is not run, or "".
	NotRun string
	// RunIf is a command that decides whether the block is run, or "".
	RunIf    string
	Commands []Command
}

// Command is a command with the output that the page shows.
type Command struct {
	// Line is the number of the command's first line on the page; 0 for a command that is not from
	// a page.
	Line     int
	Text     string
	Expected []string
}

const (
	fence        = "```"
	heading      = "## "
	prompt       = "$ "
	continuation = "> "
	commentBegin = "<!-- "
	commentEnd   = " -->"
	notRun       = "not run: "
	runIf        = "run if: "
)

var link = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// Parse returns the sections of a page, those without commands included.
func Parse(page string) ([]Section, error) {
	sections := []Section{{}}
	var next Block
	var text []string
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if title, ok := strings.CutPrefix(line, heading); ok {
			sections = append(sections, Section{Title: title})
			next, text = Block{}, nil
			continue
		}
		if comment, ok := strings.CutPrefix(line, commentBegin); ok {
			if err := next.readComment(comment); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			continue
		}
		if !strings.HasPrefix(line, fence) {
			if line != "" && !strings.HasPrefix(line, "# ") {
				next = Block{}
				text = append(text, link.ReplaceAllString(line, "$1"))
			}
			continue
		}
		end := i + 1
		for end < len(lines) && strings.TrimSpace(lines[end]) != fence {
			end++
		}
		if line == fence+"console" {
			var err error
			if next.Commands, err = parseCommands(lines[i+1:end], i+2); err != nil {
				return nil, err
			}
			next.Text = strings.Join(text, " ")
			last := &sections[len(sections)-1]
			last.Blocks = append(last.Blocks, next)
			text = nil
		}
		next, i = Block{}, end
	}
	return sections, nil
}

// readComment reads a comment above the block. It ignores comments of any other form.
func (b *Block) readComment(comment string) error {
	for prefix, value := range map[string]*string{notRun: &b.NotRun, runIf: &b.RunIf} {
		rest, ok := strings.CutPrefix(comment, prefix)
		if !ok {
			continue
		}
		if *value, ok = strings.CutSuffix(rest, commentEnd); !ok || *value == "" {
			return fmt.Errorf("expected %s%s...%s", commentBegin, prefix, commentEnd)
		}
	}
	return nil
}

// parseCommands returns the commands of a block whose first line has the number first.
func parseCommands(lines []string, first int) ([]Command, error) {
	var commands []Command
	for i := 0; i < len(lines); i++ {
		text, isCommand := strings.CutPrefix(lines[i], prompt)
		if !isCommand {
			if len(commands) == 0 {
				return nil, fmt.Errorf("line %d: a block begins with a command: %q", first+i, lines[i])
			}
			last := &commands[len(commands)-1]
			last.Expected = append(last.Expected, lines[i])
			continue
		}
		begin := i
		for i+1 < len(lines) {
			line, isContinued := strings.CutPrefix(lines[i+1], continuation)
			if !isContinued && !strings.HasSuffix(text, `\`) {
				break
			}
			i++
			text += "\n" + line
		}
		commands = append(commands, Command{Line: first + begin, Text: text})
	}
	return commands, nil
}
