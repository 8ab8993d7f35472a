// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

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

// Limits of a manifest. A parsed node takes about 300 bytes at a time, so that a
// document takes at most 64 MiB.
const (
	maxManifestBytes   = 10 << 20
	maxManifestObjects = 10_000
	maxManifestNodes   = 1_000_000
	maxDocumentNodes   = 200_000
	// maxAliasBytes is how much longer a document may become when its aliases are
	// replaced by what they stand for.
	maxAliasBytes = 1 << 20
)

var errTooManyObjects = fmt.Errorf("it has more objects than the limit of %d: split the chart", maxManifestObjects)

// checkSize fails when the documents of a manifest, of which none is parsed yet,
// exceed a limit. A parser takes memory first, and finds out then.
func checkSize(documents []document) error {
	nodes, objects := 0, 0
	for _, document := range documents {
		count := nodesAtMost(document.text)
		if count > maxDocumentNodes {
			return fmt.Errorf("a document has about %d nodes, more than the limit of %d: split it", count, maxDocumentNodes)
		}
		if count > 1 {
			objects++
		}
		nodes += count
	}
	switch {
	case nodes > maxManifestNodes:
		return fmt.Errorf("it has about %d nodes, more than the limit of %d: split the chart", nodes, maxManifestNodes)
	case objects > maxManifestObjects:
		return errTooManyObjects
	}
	for _, document := range documents {
		if err := checkAliases(document.text); err != nil {
			return err
		}
	}
	return nil
}

// countObjects counts the objects of a document, those of Lists included.
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

// checkAliases fails when the aliases of a document stand for more than it may have.
// The parser of sigs.k8s.io/yaml bounds how many nodes they stand for, and not how
// long their texts are.
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

// expansion is what a node stands for, once its aliases are replaced.
type expansion struct {
	nodes, bytes int
}

// expansions are those of the nodes seen so far; nil while one is looked at.
type expansions map[*yaml.Node]*expansion

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
		// Sums of sums double with each alias; they must not overflow.
		size.nodes = min(size.nodes+more.nodes, math.MaxInt/2)
		size.bytes = min(size.bytes+more.bytes, math.MaxInt/2)
	}
	e[node] = &size
	return size, nil
}

// nodesAtMost returns a number of nodes that the document does not exceed, without
// parsing it. It is close for what charts contain. The texts of block scalars and
// quoted scalars do not count where they are certain to be such.
func nodesAtMost(text []byte) int {
	if upper := 1 + indicators(text); upper <= maxDocumentNodes/10 {
		return upper
	}
	if json.Valid(text) {
		return 1 + jsonIndicators(text)
	}
	return newBlockScanner(text).count()
}

// indicators returns at least the number of nodes that the text has besides its
// first: every other one is an item or an entry, and stands beside one of these
// characters. An entry has two nodes.
func indicators(text []byte) int {
	count := 0
	for _, indicator := range []byte(",:-?[{") {
		count += 2 * bytes.Count(text, []byte{indicator})
	}
	return count
}

// jsonIndicators is like indicators, for valid JSON, of which it leaves out strings.
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

// blockScanner counts the nodes of YAML as charts write it: mappings and sequences in
// block style, line by line, with flow collections of one line. Where a line could be
// read in another way, the scanner stops and counts all indicators of the rest. So
// nothing that it takes for text is anything else.
type blockScanner struct {
	text  []byte
	nodes int
}

func newBlockScanner(text []byte) *blockScanner {
	return &blockScanner{text: text, nodes: 1}
}

var (
	// otherBreaks are line breaks to a YAML parser that do not end a line here.
	otherBreaks = regexp.MustCompile("\r[^\n]|\r$|\u0085|\u2028|\u2029|\uFEFF|\x00")
	// blockKey is a key that cannot be anything else, at the beginning of a line.
	blockKey = regexp.MustCompile(`^(?:[0-9A-Za-z_./][-0-9A-Za-z_./]*|"[^"\\]*"|'[^']*'):(?: +|$)`)
	// blockHeader begins a block scalar.
	blockHeader = regexp.MustCompile(`^[|>][-+1-9]{0,2}(?: +#.*)?$`)
	// plainText is the beginning of a plain scalar, and odd is what else may be in it.
	plainText = regexp.MustCompile(`^(?:[0-9A-Za-z_./$(+=~<;^\\)]|[^\x00-\x7F]|-[^ ])`)
	odd       = regexp.MustCompile(`:(?: |$)`)
	// lineEnd is what may follow a value.
	lineEnd = regexp.MustCompile(`^ *(?: #.*)?$`)
)

func (s *blockScanner) count() int {
	if utf8.Valid(s.text) && !otherBreaks.Match(s.text) {
		for len(s.text) > 0 && s.line() {
		}
	}
	return s.nodes + indicators(s.text)
}

// line counts the nodes of one line, with those that belong to its value. It returns
// false when it is not certain what the line is, and leaves it then.
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

// value counts the nodes of what follows the dashes and the key of a line, at an
// offset in the text, and returns the text after it. Parent is the indentation of the
// entry or item that has the value; negative when there is none.
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
		// Over several lines, it is only certain behind a key: a line without one may
		// go on with the text before it.
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

// skipIndented returns what follows the lines that are empty or indented by more.
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

// quoteEnd returns where a scalar in quotes, at the beginning of the text, ends;
// negative when it does not.
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

// isFlow reports whether the text, which is the rest of a line, is certain to be one
// complete flow collection.
func isFlow(text []byte) bool {
	depth := 0
	var before byte // The last character that is no space.
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
