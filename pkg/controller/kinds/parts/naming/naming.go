// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package naming derives names of objects and values of labels from longer texts.
package naming

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Hashed returns text, a dash and the first digits of the hexadecimal SHA-256 of identity, in at
// most limit bytes. text is truncated, and does not end with a dash or a dot. If there is no space
// for text, the result is the hash alone. identity makes the result unique, and may equal text.
// text must be ASCII, as names are.
func Hashed(text, identity string, limit, digits int) string {
	sum := sha256.Sum256([]byte(identity))
	hash := hex.EncodeToString(sum[:])[:digits]
	text = strings.TrimRight(text[:max(0, min(len(text), limit-digits-len("-")))], "-.")
	if text == "" {
		return hash
	}
	return text + "-" + hash
}

// Shortened returns name, or its [Hashed] form if name has more than limit bytes.
func Shortened(name string, limit, digits int) string {
	if len(name) <= limit {
		return name
	}
	return Hashed(name, name, limit, digits)
}
