// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestPlay(t *testing.T) {
	tests := map[string]struct {
		// page is the lines of the section.
		page []string
		// shown and hidden are parts of the screen that must and must not be there.
		shown, hidden []string
		unmet         *UnmetError
	}{
		"text, commands and output": {
			page:  []string{"Some text.", "```console", "$ A=one", "$ echo $A; echo two", "one", "...", "```"},
			shown: []string{"  Some text.\n", "\n  $ A=one\n    took ", "\n  $ echo $A; echo two\n    one\n    two\n    took "},
		},
		"a command that fails": {
			page:   []string{"```console", "$ echo problem; false", "$ echo next", "```"},
			hidden: []string{"next"},
			unmet:  &UnmetError{Expected: "the command to succeed", Seen: "problem\nexit code 1"},
		},
		"another output": {
			page:  []string{"```console", "$ echo one", "two", "```"},
			unmet: &UnmetError{Expected: "two", Seen: "one"},
		},
		"blocks that are not run": {
			page: []string{
				"<!-- not run: a reason -->", "```console", "$ echo never", "```",
				"<!-- run if: false -->", "```console", "$ echo neither", "```", "<!-- run if: true -->", "```console", "$ echo always", "```",
			},
			shown:  []string{"    always\n"},
			hidden: []string{"never", "neither"},
		},
		"a watch": {
			page: []string{
				"```console", "$ echo 1 >file", "$ tail -f file &", "1",
				"$ echo 5 >>file; echo other >>file; echo 1 >>file; echo scaled", "scaled", "5", "1", "$ kill $!", "```",
			},
			shown: []string{"$ tail -f file &\n    1\n", "    scaled\n    took ", "    watch +0s     5\n    watch +"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sections, err := Parse(strings.Join(test.page, "\n"))
			if err != nil {
				t.Fatal(err)
			}
			bash, err := StartShell(t.TempDir(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer bash.Close()
			var out bytes.Buffer
			player := &Player{Shell: bash, Screen: NewScreen(&out)}

			remarks, err := player.Play(t.Context(), sections[0])

			var unmet *UnmetError
			if errors.As(err, &unmet); err != nil && unmet == nil || (unmet == nil) != (test.unmet == nil) || unmet != nil && *unmet != *test.unmet {
				t.Errorf("error %v, expected %v", err, test.unmet)
			}
			if isWatch := strings.Contains(out.String(), "watch +"); (len(remarks) == 1) != isWatch {
				t.Errorf("remarks %q", remarks)
			}
			for _, part := range test.shown {
				if !strings.Contains(out.String(), part) {
					t.Errorf("screen lacks %q:\n%s", part, out.String())
				}
			}
			for _, part := range test.hidden {
				if strings.Contains(out.String(), part) {
					t.Errorf("screen shows %q:\n%s", part, out.String())
				}
			}
		})
	}
}
