// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Limits of a manifest. A parsed node takes about 300 bytes, so a document takes at most
// 64 MiB.
const (
	MaxBytes         = 10 << 20
	maxObjects       = 10_000
	maxNodes         = 1_000_000
	maxDocumentNodes = 200_000
	// maxAliasBytes is the text that a document may gain when its aliases are replaced by
	// their values.
	maxAliasBytes = 1 << 20
)

var errTooManyObjects = fmt.Errorf("the manifest has more objects than the limit of %d: split the chart", maxObjects)

// checkSize fails when the documents of a manifest exceed a limit. It runs before the
// documents are parsed, because parsing takes the memory that the limits protect.
func checkSize(documents []Document) error {
	nodes, objects := 0, 0
	for _, document := range documents {
		count := NodesAtMost(document.Text)
		if count > maxDocumentNodes {
			return fmt.Errorf("a document has about %d nodes, more than the limit of %d: split it", count, maxDocumentNodes)
		}
		if count > 1 {
			objects++
		}
		nodes += count
	}
	switch {
	case nodes > maxNodes:
		return fmt.Errorf("the manifest has about %d nodes, more than the limit of %d: split the chart", nodes, maxNodes)
	case objects > maxObjects:
		return errTooManyObjects
	}
	for _, document := range documents {
		if err := checkAliases(document.Text); err != nil {
			return err
		}
	}
	return nil
}

// countObjects counts the objects of a document, including the items of Lists.
func countObjects(objects []*unstructured.Unstructured) int {
	count := 0
	for _, object := range objects {
		list, _ := items(object.Object)
		count += max(1, len(list))
	}
	return count
}

var (
	anchorPattern = regexp.MustCompile(`&[0-9A-Za-z_-]`)
	aliasPattern  = regexp.MustCompile(`\*[0-9A-Za-z_-]`)
)

// checkAliases fails when a document with its aliases replaced exceeds a limit. The parser
// of sigs.k8s.io/yaml bounds the number of such nodes, but not the length of their text.
func checkAliases(text []byte) error {
	if !anchorPattern.Match(text) || !aliasPattern.Match(text) {
		return nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return err
	}
	size, err := (expansions{}).of(&root)
	if err != nil {
		return err
	}
	if size.nodes > maxDocumentNodes || size.bytes > len(text)+maxAliasBytes {
		return fmt.Errorf("the aliases of a document stand for more than %d nodes, or add more than %d bytes: use fewer",
			maxDocumentNodes, maxAliasBytes)
	}
	return nil
}

// expansion is the size of a node with its aliases replaced.
type expansion struct {
	nodes, bytes int
}

// expansions has the sizes of the visited nodes; nil while a node is being visited.
type expansions map[*yaml.Node]*expansion

// of returns the size of a node.
func (e expansions) of(node *yaml.Node) (expansion, error) {
	if known, ok := e[node]; ok {
		if known == nil {
			return expansion{}, errors.New("an anchor's value contains the anchor itself")
		}
		return *known, nil
	}
	e[node] = nil
	size := expansion{nodes: 1, bytes: len(node.Value)}
	children := node.Content
	if node.Kind == yaml.AliasNode {
		size, children = expansion{}, []*yaml.Node{node.Alias}
	}
	for _, child := range children {
		more, err := e.of(child)
		if err != nil {
			return expansion{}, err
		}
		// The sums can double with each alias and must not overflow.
		size.nodes = min(size.nodes+more.nodes, math.MaxInt/2)
		size.bytes = min(size.bytes+more.bytes, math.MaxInt/2)
	}
	e[node] = &size
	return size, nil
}

// NodesAtMost returns an upper bound for the number of nodes in a document, without parsing
// it. The bound is close for typical charts. It leaves out the text of block scalars and
// quoted scalars where they are certain to be scalars.
func NodesAtMost(text []byte) int {
	if upper := 1 + indicators(text); upper <= maxDocumentNodes/10 {
		return upper
	}
	if json.Valid(text) {
		return 1 + jsonIndicators(text)
	}
	return newBlockScanner(text).count()
}

// indicators returns an upper bound for the number of nodes after the first. Each of them
// belongs to an item or an entry, which has one of these characters. An entry has two
// nodes.
func indicators(text []byte) int {
	count := 0
	for _, indicator := range []byte(",:-?[{") {
		count += 2 * bytes.Count(text, []byte{indicator})
	}
	return count
}

// jsonIndicators is like indicators for valid JSON. It leaves out strings.
func jsonIndicators(text []byte) int {
	count, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ':' || c == '[' || c == '{'):
			count += 2
		}
	}
	return count
}

// blockScanner counts the nodes of typical YAML line by line: mappings and sequences in
// block style, and flow collections of one line. At a line that it does not understand for
// certain, it stops and counts all indicators of the rest. So it never mistakes nodes for
// text.
type blockScanner struct {
	text  []byte
	nodes int
}

func newBlockScanner(text []byte) *blockScanner {
	return &blockScanner{text: text, nodes: 1}
}

var (
	// otherBreaks matches line breaks of YAML that the scanner does not split at.
	otherBreaks = regexp.MustCompile("\r[^\n]|\r$|\u0085|\u2028|\u2029|\uFEFF|\x00")
	// blockKey matches text at the start of a line that can only be a key.
	blockKey = regexp.MustCompile(`^(?:[0-9A-Za-z_./][-0-9A-Za-z_./]*|"[^"\\]*"|'[^']*'):(?: +|$)`)
	// blockHeader matches the start of a block scalar.
	blockHeader = regexp.MustCompile(`^[|>][-+1-9]{0,2}(?: +#.*)?$`)
	// plainText matches the start of a plain scalar. odd matches text that could start a
	// mapping in it.
	plainText = regexp.MustCompile(`^(?:[0-9A-Za-z_./$(+=~<;^\\)]|[^\x00-\x7F]|-[^ ])`)
	odd       = regexp.MustCompile(`:(?: |$)`)
	// lineEnd matches text that may follow a value.
	lineEnd = regexp.MustCompile(`^ *(?: #.*)?$`)
)

func (s *blockScanner) count() int {
	if utf8.Valid(s.text) && !otherBreaks.Match(s.text) {
		for len(s.text) > 0 && s.line() {
		}
	}
	return s.nodes + indicators(s.text)
}

// line counts the nodes of one line and its value. It returns false, and stays at the line,
// when it does not understand the line for certain.
func (s *blockScanner) line() bool {
	line, rest, _ := bytes.Cut(s.text, []byte("\n"))
	line = bytes.TrimRight(line, " \r")
	value := bytes.TrimLeft(line, " ")
	if len(value) == 0 || value[0] == '#' || string(line) == "---" {
		s.text = rest
		return true
	}
	if bytes.ContainsRune(value, '\t') || bytes.HasPrefix(line, []byte("---")) {
		return false
	}
	nodes, parent := 0, -1
	for bytes.HasPrefix(value, []byte("- ")) || string(value) == "-" {
		parent = len(line) - len(value)
		value = bytes.TrimLeft(value[1:], " ")
		nodes += 2
	}
	key := blockKey.Find(value)
	if key != nil {
		parent = len(line) - len(value)
		value = value[len(key):]
		nodes += 2
	}
	after, more, ok := s.value(len(line)-len(value), value, rest, parent, key != nil)
	if ok {
		s.text, s.nodes = after, s.nodes+nodes+more
	}
	return ok
}

// value counts the nodes of the value at an offset in the text, after the dashes and the key
// of its line. It returns the text after the value. parent is the indentation of the entry
// or item with the value; negative without a parent.
func (s *blockScanner) value(
	offset int, value, rest []byte, parent int, keyed bool,
) (after []byte, nodes int, ok bool) {
	switch {
	case len(value) == 0 || value[0] == '#':
		return rest, 0, true
	case blockHeader.Match(value) && parent >= 0:
		return skipIndented(rest, parent), 0, true
	case value[0] == '"' || value[0] == '\'':
		if end := quoteEnd(value); end > 0 {
			return rest, 0, lineEnd.Match(value[end:])
		}
		// A scalar of several lines is certain only after a key. Without a key, the line may
		// continue the text before it.
		end := quoteEnd(s.text[offset:])
		if !keyed || end < 0 {
			return nil, 0, false
		}
		line, after, _ := bytes.Cut(s.text[offset+end:], []byte("\n"))
		return after, 0, lineEnd.Match(bytes.TrimRight(line, " \r"))
	case value[0] == '[' || value[0] == '{':
		return rest, indicators(value), isFlow(value)
	default:
		return rest, 0, plainText.Match(value) && !odd.Match(value)
	}
}

// skipIndented returns the text after the lines that are empty or indented by more.
func skipIndented(text []byte, indent int) []byte {
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		content := bytes.TrimLeft(line, " ")
		if len(bytes.TrimRight(content, "\r")) > 0 && len(line)-len(content) <= indent {
			return text
		}
		text = rest
	}
	return nil
}

// quoteEnd returns the end of the quoted scalar at the start of the text; negative when it
// does not end.
func quoteEnd(text []byte) int {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch {
		case quote == '"' && text[i] == '\\':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return -1
}

// isFlow reports whether the rest of a line is certain to be one complete flow collection.
func isFlow(text []byte) bool {
	depth := 0
	var before byte // The last character other than a space.
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return lineEnd.Match(text[i+1:])
			}
		case '"', '\'':
			begins := bytes.IndexByte([]byte("[{,"), before) >= 0 || before == ':' && (text[i-1] == ' ' || text[i-2] == '"')
			end := quoteEnd(text[i:])
			if !begins || end < 0 {
				return false
			}
			i += end - 1
		case '#', '&', '*', '!', '|', '>', '%', '@', '`', '?', '\\':
			return false
		}
		if text[i] != ' ' {
			before = text[i]
		}
	}
	return false
}
