// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// A rendering shows only the objects of one set of values. The text of a template also names the
// objects behind conditions that no rendering fulfills. It is read as a whole: all branches of
// conditions count, and named templates are inserted where they are included.

// named are the objects that the text of a template names.
type named struct {
	kinds map[schema.GroupKind]bool
	// computed reports whether a kind or an apiVersion is computed from values.
	computed bool
	// none reports whether the template has no text, or only hooks of tests.
	none bool
}

const (
	// between separates texts of which a rendering has one.
	between = "\x01"
	// computed marks the result of a computation.
	computed = "\x02"
	// maxInclusions bounds the depth of named templates.
	maxInclusions = 16
	// maxText bounds the text of a template with those that it includes.
	maxText = 4 << 20
)

// parsed are the templates of a chart and its sub-charts.
type parsed struct {
	// trees are the templates by name. Templates of files have the path that Helm reports.
	trees map[string]*parse.Tree
	// files are the files that Helm renders, with the path of their values.
	files  []string
	values map[string][]string
}

// parseAll parses the templates of a chart and its sub-charts. Files that cannot be parsed are left
// out, because Helm reports their errors.
func parseAll(content chart.Content) parsed {
	p := parsed{trees: map[string]*parse.Tree{}, values: map[string][]string{}}
	var read func(at string, values []string, content chart.Content)
	read = func(at string, values []string, content chart.Content) {
		for _, name := range slices.Sorted(maps.Keys(content.Templates)) {
			file := at + "/" + name
			tree, trees := parse.New(file), map[string]*parse.Tree{}
			tree.Mode = parse.SkipFuncCheck
			if _, err := tree.Parse(content.Templates[name], "", "", trees); err != nil {
				continue
			}
			maps.Copy(p.trees, trees)
			if base := path.Base(name); !content.Library && !strings.HasPrefix(base, "_") && base != "NOTES.txt" {
				p.files = append(p.files, file)
			}
			p.values[file] = values
		}
		for _, name := range slices.Sorted(maps.Keys(content.Dependencies)) {
			read(at+"/charts/"+name, append(slices.Clone(values), name), content.Dependencies[name])
		}
	}
	read(content.Name, nil, content)
	return p
}

// namedIn returns the objects that the templates of a chart and its sub-charts name, by the path of
// the template as Helm reports it.
func namedIn(content chart.Content) map[string]named {
	p := parseAll(content)
	found := map[string]named{}
	for _, file := range p.files {
		if tree := p.trees[file]; tree != nil {
			r := reader{trees: p.trees}
			text := r.text(tree.Root, 0)
			found[file] = namesOf(text, r.literals)
		}
	}
	return found
}

// comparedIn returns the values that conditions of the templates compare values of the chart with, so
// that the conditions are fulfilled.
func comparedIn(content chart.Content) []change {
	p := parseAll(content)
	var found []change
	known := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(p.values)) {
		tree := p.trees[file]
		if tree == nil {
			continue
		}
		r := reader{trees: map[string]*parse.Tree{}, visit: func(command *parse.CommandNode) {
			for _, c := range compared(command) {
				c.path = append(slices.Clone(p.values[file]), c.path...)
				if !known[c.String()] {
					known[c.String()], found = true, append(found, c)
				}
			}
		}}
		r.text(tree.Root, 0)
	}
	return found
}

// compared returns the values that fulfill a comparison of a value of the chart with constants.
func compared(command *parse.CommandNode) []change {
	function, ok := command.Args[0].(*parse.IdentifierNode)
	if !ok {
		return nil
	}
	var at []string
	var constants []any
	for i, argument := range command.Args[1:] {
		switch argument := argument.(type) {
		case *parse.StringNode:
			constants = append(constants, argument.Text)
		case *parse.NumberNode:
			if argument.IsInt {
				offset := map[string]int64{"gt": 1, "lt": -1}[function.Ident]
				if i == 0 { // The constant is on the left.
					offset = -offset
				}
				constants = append(constants, argument.Int64+offset)
			}
		default:
			if below := valuesIn(argument); below != nil {
				at = below
			}
		}
	}
	if at == nil || !slices.Contains([]string{"eq", "gt", "ge", "lt", "le"}, function.Ident) {
		return nil
	}
	var found []change
	for _, constant := range constants {
		found = append(found, change{at, constant})
	}
	return found
}

// valuesIn returns the path of the value of the chart that an argument reads, also within a call such
// as (.Values.mode | default "single"); nil for none.
func valuesIn(node parse.Node) []string {
	switch node := node.(type) {
	case *parse.FieldNode:
		if len(node.Ident) > 1 && node.Ident[0] == "Values" {
			return node.Ident[1:]
		}
	case *parse.VariableNode:
		if len(node.Ident) > 2 && node.Ident[0] == "$" && node.Ident[1] == "Values" {
			return node.Ident[2:]
		}
	case *parse.PipeNode:
		for _, command := range node.Cmds {
			for _, argument := range command.Args {
				if at := valuesIn(argument); at != nil {
					return at
				}
			}
		}
	}
	return nil
}

// reader reads the text of templates.
type reader struct {
	trees map[string]*parse.Tree
	// literals are the texts in the expressions that were read.
	literals []string
	size     int
	// visit is called for each command of an expression. Optional.
	visit func(*parse.CommandNode)
}

// text returns the text of a node with all branches.
func (r *reader) text(node parse.Node, depth int) string {
	switch node := node.(type) {
	case *parse.ListNode:
		if node == nil {
			return ""
		}
		var texts strings.Builder
		for _, child := range node.Nodes {
			texts.WriteString(r.text(child, depth))
		}
		return texts.String()
	case *parse.TextNode:
		if r.size += len(node.Text); r.size > maxText {
			return ""
		}
		return string(node.Text)
	case *parse.IfNode:
		return r.branches(&node.BranchNode, depth)
	case *parse.RangeNode:
		return r.branches(&node.BranchNode, depth)
	case *parse.WithNode:
		return r.branches(&node.BranchNode, depth)
	case *parse.TemplateNode:
		return r.included(node.Name, depth)
	case *parse.ActionNode:
		if len(node.Pipe.Decl) > 0 {
			r.expression(node.Pipe, depth)
			return ""
		}
		return r.expression(node.Pipe, depth)
	default:
		return ""
	}
}

func (r *reader) branches(node *parse.BranchNode, depth int) string {
	r.expression(node.Pipe, depth)
	return r.text(node.List, depth) + between + r.text(node.ElseList, depth)
}

func (r *reader) included(name string, depth int) string {
	tree := r.trees[name]
	if tree == nil || depth >= maxInclusions {
		return computed
	}
	return r.text(tree.Root, depth+1)
}

// expression returns the text of an expression, as far as it is known: the text of an included
// template, or the texts that the expression names.
func (r *reader) expression(pipe *parse.PipeNode, depth int) string {
	if pipe == nil {
		return ""
	}
	if r.visit != nil {
		for _, command := range pipe.Cmds {
			r.visit(command)
		}
	}
	if name := inclusion(pipe.Cmds[0]); name != "" {
		text := r.included(name, depth)
		for _, filter := range pipe.Cmds[1:] {
			text = indented(text, filter)
		}
		return text
	}
	texts := []string{computed}
	for _, command := range pipe.Cmds {
		for _, argument := range command.Args {
			switch argument := argument.(type) {
			case *parse.StringNode:
				r.literals = append(r.literals, argument.Text)
				texts = append(texts, argument.Text)
			case *parse.PipeNode:
				texts = append(texts, r.expression(argument, depth))
			}
		}
	}
	// A line of the template stays one line.
	return strings.ReplaceAll(strings.Join(texts, between), "\n", " ")
}

// inclusion returns the name of the template that a command includes; empty if the command includes no template.
func inclusion(command *parse.CommandNode) string {
	if len(command.Args) < 2 {
		return ""
	}
	function, ok1 := command.Args[0].(*parse.IdentifierNode)
	name, ok2 := command.Args[1].(*parse.StringNode)
	if !ok1 || !ok2 || function.Ident != "include" {
		return ""
	}
	return name.Text
}

// indented returns text as the functions indent and nindent change it. Any other function leaves the text unchanged.
func indented(text string, filter *parse.CommandNode) string {
	if len(filter.Args) != 2 {
		return text
	}
	function, ok1 := filter.Args[0].(*parse.IdentifierNode)
	width, ok2 := filter.Args[1].(*parse.NumberNode)
	if !ok1 || !ok2 || !strings.HasSuffix(function.Ident, "indent") || width.Int64 <= 0 || width.Int64 > 100 {
		return text
	}
	return "\n" + strings.Repeat(" ", int(width.Int64)) + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", int(width.Int64)))
}

var (
	separator  = regexp.MustCompile(`(?m)^[\x01\x02]*---`)
	typeLine   = regexp.MustCompile(`(?m)^[\x01\x02]*([ \t]*)(?:- +)?["']?(apiVersion|kind)["']?[ \t]*:(.*)$`)
	flowField  = regexp.MustCompile(`[{,][ \t\n]*["']?(apiVersion|kind)["']?[ \t]*:([^,}\n]*)`)
	testHook   = regexp.MustCompile(`helm\.sh/hook["']?[ \t]*:[ \t]*["']?test(?:-success|-failure)?["']?[ \t]*(?:[,}#\n]|$)`)
	kindToken  = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	groupToken = regexp.MustCompile(`^(?:([a-z0-9.-]+)/)?v[1-9][0-9]*(?:(?:alpha|beta)[1-9][0-9]*)?$`)
)

// namesOf returns the objects that a text names. literals are the texts of its expressions, among
// them the possible values of a computed kind.
func namesOf(text string, literals []string) named {
	n := named{kinds: map[schema.GroupKind]bool{}, none: true}
	for _, document := range separator.Split(text, -1) {
		groups, kinds, guessed := typesOf(document)
		if len(kinds) == 0 && !guessed {
			continue
		}
		if testHook.MatchString(document) {
			continue
		}
		n.none = false
		if guessed {
			n.computed = true
			kinds = append(kinds, slices.DeleteFunc(slices.Clone(literals), func(text string) bool { return len(groupsOf(text)) == 0 })...)
		}
		for _, kind := range kinds {
			resolved := groupsFor(kind, groups)
			n.computed = n.computed || len(resolved) == 0
			for _, group := range resolved {
				if kind != "List" {
					n.kinds[schema.GroupKind{Group: group, Kind: kind}] = true
				}
			}
		}
	}
	n.none = n.none && (testHook.MatchString(text) || strings.Trim(text, " \t\r\n"+between) == "")
	return n
}

// typesOf returns the groups and kinds that the lines apiVersion and kind of a document name, and
// whether a kind is computed. Lines with more indentation are fields of the object, such as roleRef,
// but the items of a List count.
func typesOf(document string) (groups, kinds []string, computedKind bool) {
	lines := typeLine.FindAllStringSubmatch(document, -1)
	least := -1
	for _, line := range lines {
		if least < 0 || len(line[1]) < least {
			least = len(line[1])
		}
	}
	isList := slices.ContainsFunc(lines, func(line []string) bool {
		return len(line[1]) == least && line[2] == "kind" && slices.Contains(tokens(line[3]), "List")
	})
	lines = slices.DeleteFunc(lines, func(line []string) bool { return len(line[1]) > least && !isList })
	if len(lines) == 0 {
		for _, field := range flowField.FindAllStringSubmatch(document, 2) {
			lines = append(lines, []string{"", "", field[1], field[2]})
		}
	}
	for _, line := range lines {
		found := false
		for _, token := range tokens(line[3]) {
			if line[2] == "apiVersion" {
				if match := groupToken.FindStringSubmatch(token); match != nil {
					groups = append(groups, match[1])
				}
			} else if kindToken.MatchString(token) {
				kinds, found = append(kinds, token), true
			}
		}
		if line[2] == "kind" && !found && strings.Contains(line[3], computed) {
			computedKind = true
		}
	}
	return groups, kinds, computedKind
}

// tokens returns the possible values in the text after a key.
func tokens(value string) []string {
	if comment := strings.Index(value, " #"); comment >= 0 {
		value = value[:comment]
	}
	return strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t\r\"'"+between+computed, r) })
}

// groupsFor returns the groups of a kind: of those that the document names, the ones that are known to
// have it. Without any, these are all that the document names, as the kind may be of a CRD; without
// a group in the document, all that have it.
func groupsFor(kind string, named []string) []string {
	known := groupsOf(kind)
	both := slices.DeleteFunc(slices.Clone(known), func(group string) bool { return !slices.Contains(named, group) })
	switch {
	case len(both) > 0:
		return both
	case len(named) > 0:
		return named
	default:
		return known
	}
}

// groupsOf returns the groups of Kubernetes that have a kind, without "extensions", which is no longer
// served.
func groupsOf(kind string) []string {
	if kind == "CustomResourceDefinition" {
		return []string{"apiextensions.k8s.io"}
	}
	groups := map[string]bool{}
	for _, version := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		if version.Group != "extensions" && scheme.Scheme.Recognizes(version.WithKind(kind)) {
			groups[version.Group] = true
		}
	}
	return slices.Sorted(maps.Keys(groups))
}
