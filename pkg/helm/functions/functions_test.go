// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package functions

import (
	"io"
	"strings"
	"testing"
	"text/template"

	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/memory"
)

func TestLimits(t *testing.T) {
	tests := map[string]struct {
		text string
		says []string
	}{
		"a number of items that is larger than the memory": {`{{ until 2000000000 }}`, []string{"until", "2000000000 is more than the limit"}},
		"nested ranges":              {`{{ range until 10000 }}{{ range until 10000 }}a{{ end }}{{ end }}`, []string{"until", "the limit of 100000"}},
		"a sequence of numbers":      {`{{ seq 0 1 1000000 }}`, []string{"seq", "the limit of 100000"}},
		"steps that overflow":        {`{{ untilStep 9223372036854775800 9223372036854775807 10 }}`, []string{"untilStep", "use smaller numbers"}},
		"a text of many repetitions": {`{{ repeat 2000000000 "a" }}`, []string{"repeat", "the limit of 10485760"}},
		"many texts":                 {`{{ range until 1000 }}{{ repeat 20000 "a" }}{{ end }}`, []string{"repeat", "the limit of 10485760"}},
		"a long password":            {`{{ randAlphaNum 2000000000 }}`, []string{"randAlphaNum", "the limit of 10485760"}},
		"many random bytes":          {`{{ randBytes 2000000000 }}`, []string{"randBytes", "the limit of 10485760"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			parsed, err := template.New("").Funcs(new(Rendering).Functions()).Parse(test.text)
			expect.NoError(t, err)
			before := memory.Allocated()

			err = parsed.Execute(io.Discard, nil)

			if err == nil {
				t.Fatal("the limit is not held")
			}
			expect.Contains(t, "error", err.Error(), test.says...)
			if took := memory.Allocated() - before; took > memory.Limit {
				t.Errorf("allocated %d MiB", took>>20)
			}
		})
	}
}

// TestFunctionsAreHelms: within the limits, the functions return the same as Helm's.
func TestFunctionsAreHelms(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"until":     {`{{ until 3 }}`, "[0 1 2]"},
		"untilStep": {`{{ untilStep 3 9 3 }}`, "[3 6]"},
		"seq":       {`{{ seq 5 }}, {{ seq 2 4 }}, {{ seq 0 2 6 }}`, "1 2 3 4 5, 2 3 4, 0 2 4 6"},
		"repeat":    {`{{ repeat 3 "ab" }}`, "ababab"},
		"random":    {`{{ len (randAlpha 5) }}{{ len (randNumeric 6) }}{{ len (randAscii 7) }}`, "567"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			parsed, err := template.New("").Funcs(new(Rendering).Functions()).Parse(test.text)
			expect.NoError(t, err)
			var text strings.Builder

			err = parsed.Execute(&text, nil)

			expect.NoError(t, err)
			expect.Equal(t, "text", test.want, text.String())
		})
	}
}
