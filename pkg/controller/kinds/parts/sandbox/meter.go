// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"strconv"
	"text/template/parse"
)

const (
	// maxSteps is the maximum number of parts of templates that one rendering evaluates. A part of
	// the body of a range counts in each iteration. A step takes less than a microsecond.
	maxSteps = 100_000
	// maxProcessed is the maximum number of bytes that the functions of one rendering read and
	// produce.
	maxProcessed = 16 << 20
	// stepFunction is the name of the function that a range calls in each iteration. Templates
	// cannot call it, because it is not among the functions that they are parsed with.
	stepFunction = "_step"
)

// meter counts the work of one rendering.
type meter struct {
	// rangeSteps is the cost of the start of a range, which sorts its map.
	rangeSteps int
	// isDocument means that the template is a YAML template. See [Document].
	isDocument bool

	steps, bytes int
	// actions are the texts of the actions of a document. inserted are the values that the actions
	// inserted.
	actions  []string
	inserted []insertion
}

// step charges the evaluation of parts of a template. It returns a text, because templates call it.
func (m *meter) step(parts int) (string, error) {
	if m.steps += parts; m.steps > maxSteps {
		return "", errTooManySteps
	}
	return "", nil
}

// process charges bytes that a function reads or produces.
func (m *meter) process(bytes int) error {
	if bytes > maxProcessed {
		return errTooManyBytes
	}
	if m.bytes += bytes; m.bytes > maxProcessed {
		return errTooManyBytes
	}
	return nil
}

// install adds the call of stepFunction to each range below a node. It returns the steps of one
// evaluation of the node, without those that the ranges charge. It refuses calls of other
// templates, because these could repeat work as well.
func (m *meter) install(node parse.Node) (steps int, err error) {
	below := func(nodes ...parse.Node) {
		for _, next := range nodes {
			if err != nil {
				return
			}
			var more int
			more, err = m.install(next)
			steps += more
		}
	}
	steps = 1
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil { // A block without else has no list there.
			below(n.Nodes...)
		}
	case *parse.ActionNode:
		m.installInsert(n)
		below(n.Pipe)
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			below(command)
		}
	case *parse.CommandNode:
		if m.isDocument {
			err = checkIndents(n)
		}
		below(n.Args...)
	case *parse.ChainNode:
		below(n.Node)
	case *parse.IfNode:
		below(n.Pipe, n.List, n.ElseList)
	case *parse.WithNode:
		below(n.Pipe, n.List, n.ElseList)
	case *parse.RangeNode:
		steps += m.rangeSteps
		below(n.Pipe, n.ElseList)
		if err == nil {
			err = m.installRange(n)
		}
	case *parse.TemplateNode:
		err = errDefine
	}
	return steps, err
}

func (m *meter) installRange(n *parse.RangeNode) error {
	steps, err := m.install(n.List)
	if err != nil {
		return err
	}
	first := &parse.ActionNode{NodeType: parse.NodeAction, Pos: n.Pos, Line: n.Line, Pipe: &parse.PipeNode{
		NodeType: parse.NodePipe, Pos: n.Pos, Line: n.Line, Cmds: []*parse.CommandNode{call(n.Pos, stepFunction, steps)},
	}}
	n.List.Nodes = append([]parse.Node{first}, n.List.Nodes...)
	return nil
}

// call returns the call of a function with a number.
func call(at parse.Pos, function string, number int) *parse.CommandNode {
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: at, Args: []parse.Node{
		parse.NewIdentifier(function).SetPos(at),
		&parse.NumberNode{NodeType: parse.NodeNumber, Pos: at, IsInt: true, Int64: int64(number), Text: strconv.Itoa(number)},
	}}
}
