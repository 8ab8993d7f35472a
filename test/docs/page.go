// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"strings"
)

// block is a block of commands on a page.
type block struct {
	// line is the line of the first command.
	line int
	// notRun is the reason why the block is not run, or "".
	notRun   string
	commands []command
}

// command is a command of a page, with the output that the page shows.
type command struct {
	line     int
	text     string
	expected []string
}

const (
	fence        = "```"
	prompt       = "$ "
	continuation = "> "
	notRunPrefix = "<!-- not run: "
	notRunSuffix = " -->"
)

// blocks returns the blocks of commands of a page, in order.
func blocks(page string) ([]block, error) {
	var found []block
	lines := strings.Split(page, "\n")
	notRun := ""
	for i := 0; i < len(lines); i++ {
		text := strings.TrimSpace(lines[i])
		if reason, ok := strings.CutPrefix(text, notRunPrefix); ok {
			if notRun, ok = strings.CutSuffix(reason, notRunSuffix); !ok || notRun == "" {
				return nil, fmt.Errorf("line %d: expected %sREASON%s", i+1, notRunPrefix, notRunSuffix)
			}
			continue
		}
		if !strings.HasPrefix(text, fence) {
			if text != "" {
				notRun = ""
			}
			continue
		}
		end := i + 1
		for end < len(lines) && strings.TrimSpace(lines[end]) != fence {
			end++
		}
		if text == fence+"console" {
			parsed, err := parseBlock(lines[i+1:end], i+2)
			if err != nil {
				return nil, err
			}
			parsed.notRun = notRun
			found = append(found, parsed)
		}
		notRun, i = "", end
	}
	return found, nil
}

// parseBlock returns the commands of a block whose first line has the number first.
func parseBlock(lines []string, first int) (block, error) {
	parsed := block{line: first}
	for i := 0; i < len(lines); i++ {
		text, isCommand := strings.CutPrefix(lines[i], prompt)
		if !isCommand {
			if len(parsed.commands) == 0 {
				return block{}, fmt.Errorf("line %d: a block begins with a command: %q", first+i, lines[i])
			}
			last := &parsed.commands[len(parsed.commands)-1]
			last.expected = append(last.expected, lines[i])
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
		parsed.commands = append(parsed.commands, command{line: first + begin, text: text})
	}
	return parsed, nil
}
