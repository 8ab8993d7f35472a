// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package canary makes secrets that can be found again in the output of a program, in any of the
// forms in which programs write texts: plain, quoted, as in JSON, in a URL, in base64 or in
// hexadecimal.
package canary

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// minTracked is the length in bytes of the shortest text that Track accepts. A shorter text may
// occur by chance.
const minTracked = 12

// special are characters that quotes, JSON and URLs escape.
const special = `"<&\é`

// Set is a set of canaries. It may be used concurrently.
type Set struct {
	mu sync.Mutex
	// names are the names of the canaries, by their text.
	names map[string]string
}

// Leak is a canary in a text.
type Leak struct {
	// Canary is the name of the canary, and Form how it is written.
	Canary, Form string
	// Context is the text around the canary.
	Context string
}

// String returns the leak in one line.
func (l Leak) String() string { return fmt.Sprintf("%s, %s, in: %q", l.Canary, l.Form, l.Context) }

// New adds a canary with a name and returns its text: letters and digits.
func (s *Set) New(name string) string {
	text := "cnry" + strings.ToLower(rand.Text())
	s.Track(name, text)
	return text
}

// NewSpecial is New with characters at the end that quotes, JSON and URLs escape.
func (s *Set) NewSpecial(name string) string {
	text := s.New(name) + special
	s.Track(name, text)
	return text
}

// Track adds a secret that the test did not choose. It panics if the text is too short to be
// unique.
func (s *Set) Track(name, text string) {
	if len(text) < minTracked {
		panic(fmt.Sprintf("canary %s: the text has only %d bytes", name, len(text)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]string{}
	}
	s.names[text] = name
}

// Find returns the first leak of each canary in a text, sorted by name.
func (s *Set) Find(text string) []Leak {
	s.mu.Lock()
	names := maps.Clone(s.names)
	s.mu.Unlock()
	var leaks []Leak
	for secret, name := range names {
		for _, f := range formsOf(secret) {
			if i := strings.Index(text, f.text); i >= 0 {
				leaks = append(leaks, Leak{Canary: name, Form: f.name, Context: around(text, i, i+len(f.text))})
				break
			}
		}
	}
	slices.SortFunc(leaks, func(a, b Leak) int {
		return cmp.Or(strings.Compare(a.Canary, b.Canary), strings.Compare(a.Form, b.Form))
	})
	return slices.CompactFunc(leaks, func(a, b Leak) bool { return a.Canary == b.Canary })
}

// around returns the text from begin to end with its surroundings.
func around(text string, begin, end int) string {
	const beside = 120
	return text[max(0, begin-beside):min(len(text), end+beside)]
}

// form is one way to write a secret.
type form struct{ name, text string }

// formsOf returns the forms of a secret.
func formsOf(secret string) []form {
	// Marshal cannot fail for a string. It escapes <, > and &; other encoders do not.
	escaped, _ := json.Marshal(secret)
	twice, _ := json.Marshal(string(escaped[1 : len(escaped)-1]))
	quoted := strconv.Quote(secret)
	forms := []form{
		{"in plain text", secret},
		{"in JSON", string(escaped[1 : len(escaped)-1])},
		{"in JSON within JSON", string(twice[1 : len(twice)-1])},
		{"quoted", quoted[1 : len(quoted)-1]},
		{"in ASCII quotes", strings.Trim(strconv.QuoteToASCII(secret), `"`)},
		{"in a query", url.QueryEscape(secret)},
		{"in a path", url.PathEscape(secret)},
		{"in hexadecimal", hex.EncodeToString([]byte(secret))},
		{"in upper-case hexadecimal", strings.ToUpper(hex.EncodeToString([]byte(secret)))},
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for offset := range 3 {
			forms = append(forms, form{"in base64", inBase64(encoding, secret, offset)})
		}
	}
	return forms
}

// inBase64 returns the part of the base64 text of a longer secret that does not depend on the bytes
// around the secret. The secret begins at an offset within three bytes.
func inBase64(encoding *base64.Encoding, secret string, offset int) string {
	padded := append(make([]byte, offset), secret...)
	whole := encoding.WithPadding(base64.NoPadding).EncodeToString(padded)
	begin := (offset*8 + 5) / 6           // The first character of the secret's own bits only.
	end := (offset + len(secret)) * 8 / 6 // Behind the last such character.
	return whole[begin:end]
}
