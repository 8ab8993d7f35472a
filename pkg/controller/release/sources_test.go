// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strings"
	"testing"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/test/expect"
)

func TestCheckKey(t *testing.T) {
	key := SecretKey{From: &releasev1alpha1.SecretKeyReference{Name: "keys", Key: "k"}, MinLength: 8, MaxLength: 1024}
	tests := []struct {
		name, value string
		message     string
	}{
		{"shortest", "12345678", ""},
		{"longest", strings.Repeat("x", 1024), ""},
		{"counted in characters", strings.Repeat("ü", 1024), ""},
		{"too short", "secret7", `Key "k" of Secret "keys" has 7 characters; it must have 8 to 1024`},
		{"empty", "", `Key "k" of Secret "keys" has 0 characters; it must have 8 to 1024`},
		{"too long", strings.Repeat("secret", 171), `Key "k" of Secret "keys" has 1026 characters; it must have 8 to 1024`},
		{"not UTF-8", "secret\xff\xfe", `Key "k" of Secret "keys" is not text (UTF-8)`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			problem := key.check(values.Found{Text: test.value})
			if test.message == "" {
				if problem != nil {
					t.Errorf("refused: %s", problem.Message)
				}
				return
			}
			if problem == nil {
				t.Fatal("not refused")
			}
			expect.Equal(t, "blocker", Blocker{Reason: releasev1alpha1.ReasonKeyInvalid, Message: test.message}, *problem)
		})
	}
}

// TestSourcesNeedReader: without a reader, keys would be missing for ever.
func TestSourcesNeedReader(t *testing.T) {
	expect.NoError(t, Sources[string]{}.validate())
	if err := (Sources[string]{Keys: func(string) []SecretKey { return nil }}).validate(); err == nil {
		t.Error("Keys without a Reader are no error")
	}
}
