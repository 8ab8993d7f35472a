// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"encoding/json"
	"iter"
)

// Size is the number and the size of the parts of a decoded document.
type Size struct {
	// Nodes is the number of keys, scalars, lists and objects.
	Nodes int
	// Depth is the nesting of lists and objects.
	Depth int
	// Key is the length of the longest key, in bytes of the document.
	Key int
}

// Measure returns the size of a document. It allocates nothing.
func Measure(document []byte) Size {
	var size Size
	level := 0
	for i := skipSpace(document, 0); i < len(document); i = skipSpace(document, i) {
		switch document[i] {
		case '{', '[':
			size.Nodes++
			level++
			size.Depth = max(size.Depth, level)
			i++
		case '}', ']':
			level--
			i++
		case ',', ':':
			i++
		default:
			end := scalarEnd(document, i)
			if after := skipSpace(document, end); after < len(document) && document[after] == ':' {
				size.Key = max(size.Key, end-i-2)
			}
			size.Nodes++
			i = end
		}
	}
	return size
}

// Members returns the keys and values of an object, in their order. The values are parts of the
// document. A document that is no object has no members.
func Members(document []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		i := skipSpace(document, 0)
		if i == len(document) || document[i] != '{' {
			return
		}
		for i = skipSpace(document, i+1); i < len(document) && document[i] == '"'; i = skipSpace(document, i) {
			var key string
			end := scalarEnd(document, i)
			if json.Unmarshal(document[i:end], &key) != nil {
				return
			}
			from := skipSpace(document, min(skipSpace(document, end)+1, len(document))) // Behind the colon.
			end = valueEnd(document, from)
			if !yield(key, document[from:end]) {
				return
			}
			if i = skipSpace(document, end); i < len(document) {
				i++ // Behind the comma.
			}
		}
	}
}

// Member returns the value of a key of an object; nil without the key.
func Member(document []byte, key string) []byte {
	for name, value := range Members(document) {
		if name == key {
			return value
		}
	}
	return nil
}

// valueEnd returns the end of the value that begins at i.
func valueEnd(document []byte, i int) int {
	level := 0
	for i < len(document) {
		switch document[i] {
		case '{', '[':
			level++
			i++
		case '}', ']':
			level--
			i++
		case ',', ':':
			i++
		default:
			i = scalarEnd(document, i)
		}
		if level == 0 {
			return i
		}
		i = skipSpace(document, i)
	}
	return i
}

// scalarEnd returns the end of the text, number or word that begins at i.
func scalarEnd(document []byte, i int) int {
	if document[i] != '"' {
		for i++; i < len(document); i++ {
			switch document[i] {
			case ' ', '\t', '\r', '\n', ',', ':', '}', ']':
				return i
			}
		}
		return i
	}
	for i++; i < len(document); i++ {
		switch document[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(document)
}

// skipSpace returns the position of the first character from i on that is no white space.
func skipSpace(document []byte, i int) int {
	for i < len(document) && (document[i] == ' ' || document[i] == '\t' || document[i] == '\r' || document[i] == '\n') {
		i++
	}
	return i
}
