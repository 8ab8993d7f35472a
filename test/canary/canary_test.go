// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestFind holds that a search for leaks can fail: a canary is found in each form, with other text
// around it.
func TestFind(t *testing.T) {
	asJSON := func(v any) string {
		content, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	forms := map[string]func(secret string) string{
		"plain":                func(secret string) string { return secret },
		"quoted":               func(secret string) string { return fmt.Sprintf("%q", secret) },
		"quoted as ASCII":      func(secret string) string { return fmt.Sprintf("%+q", secret) },
		"JSON":                 func(secret string) string { return asJSON(secret) },
		"JSON within JSON":     func(secret string) string { return asJSON(asJSON(secret)) },
		"query":                url.QueryEscape,
		"path":                 url.PathEscape,
		"hexadecimal":          func(secret string) string { return hex.EncodeToString([]byte(secret)) },
		"upper hexadecimal":    func(secret string) string { return fmt.Sprintf("%X", secret) },
		"base64":               func(secret string) string { return base64.StdEncoding.EncodeToString([]byte(secret)) },
		"base64 of a login":    func(secret string) string { return base64.StdEncoding.EncodeToString([]byte("me:" + secret + " x")) },
		"base64 at offset 1":   func(secret string) string { return base64.RawStdEncoding.EncodeToString([]byte("a" + secret + "b")) },
		"base64 at offset 2":   func(secret string) string { return base64.URLEncoding.EncodeToString([]byte("ab" + secret)) },
		"base64 of JSON bytes": func(secret string) string { return asJSON([]byte(secret)) },
	}
	for name, write := range forms {
		t.Run(name, func(t *testing.T) {
			for _, canary := range []func(*Set) string{
				func(s *Set) string { return s.New("key") },
				func(s *Set) string { return s.NewSpecial("key") },
			} {
				var set Set
				secret := canary(&set)

				leaks := set.Find("before " + write(secret) + " after")

				if len(leaks) != 1 || leaks[0].Canary != "key" {
					t.Errorf("%q: found %v", write(secret), leaks)
				}
			}
		})
	}
}

func TestFindNothing(t *testing.T) {
	var set Set
	first, second := set.New("first"), set.NewSpecial("second")

	for _, text := range []string{"", "cnry", strings.ToUpper(first), first[:len(first)-1], second[1:20]} {
		if leaks := set.Find(text); len(leaks) > 0 {
			t.Errorf("%q: found %v", text, leaks)
		}
	}
}

func TestFindTellsCanariesApart(t *testing.T) {
	var set Set
	first, _ := set.New("first"), set.New("second")
	set.Track("password", "generated-by-others")

	leaks := set.Find("a " + first + " and Z2VuZXJhdGVkLWJ5LW90aGVycw==")

	if len(leaks) != 2 || leaks[0].Canary != "first" || leaks[1].Canary != "password" || leaks[1].Form != "in base64" {
		t.Errorf("found %v", leaks)
	}
	if text := leaks[0].String(); !strings.Contains(text, "first, in plain text") || !strings.Contains(text, " and ") {
		t.Errorf("the leak is %s", text)
	}
}

func TestTrackRefusesShortTexts(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a short text was accepted")
		}
	}()
	new(Set).Track("short", "abc")
}
