// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
)

func TestSideBySide(t *testing.T) {
	long := "a\nb\nc\nd\ne\nf\ng\nh\n"
	tests := []struct{ name, before, after, want string }{
		{"equal", "a\n", "a\n", ""},
		{"changed line", "a\nb\n", "a\nc\n", "1 a = 1 a\n2 b | 2 c\n"},
		{"added object", "", "a\nb\n", "0  | 1 a\n0  | 2 b\n"},
		{"removed object", "a\n", "", "1 a | 0 \n"},
		{"more lines than before", "a\nb\n", "a\nc\nd\n", "1 a = 1 a\n2 b | 2 c\n0  | 3 d\n"},
		{"lines left out", long, strings.Replace(long, "h", "i", 1), "...\n5 e = 5 e\n6 f = 6 f\n7 g = 7 g\n8 h | 8 i\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows := inspect.Difference{Before: tt.before, After: tt.after}.SideBySide()

			var got strings.Builder
			for _, row := range rows {
				if row.Gap {
					got.WriteString("...\n")
				}
				sign := "|"
				if row.Equal {
					sign = "="
				}
				fmt.Fprintf(&got, "%d %s %s %d %s\n", row.Left, row.Before, sign, row.Right, row.After)
			}
			expect.Equal(t, "rows", tt.want, got.String())
		})
	}
}
