// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/example/demoapp-controller/pkg/message"
)

var (
	errTooLarge     = fmt.Errorf("the rendered config has more than %d bytes as JSON: use shorter texts, or two configs", MaxBytes)
	errTooManySteps = fmt.Errorf("the templates take more than %d steps: use fewer or shorter loops", maxSteps)
	errTooManyBytes = fmt.Errorf("the functions process more than %d bytes: use fewer or smaller texts", maxProcessed)
	errDefine       = errors.New("define, block and template are not available: write the text where it is used")
)

// maxProblem is the limit of a problem in bytes. text/template quotes parts of the template.
const maxProblem = 400

// Error says why a template cannot be rendered. It names no value.
type Error struct {
	// Key is the key of the template. It is empty for a [Document].
	Key string
	// Line is the line in the template, starting at 1. It is 0 if the problem has no line.
	Line int
	// Problem describes the error and its remedy, in one line.
	Problem string
}

// Error implements error.
func (e *Error) Error() string {
	text := e.Problem
	if e.Line > 0 {
		text = fmt.Sprintf("line %d: %s", e.Line, text)
	}
	if e.Key != "" {
		text = e.Key + ": " + text
	}
	return text
}

// located matches errors of text/template: the line, the part of the template, and the problem.
var located = regexp.MustCompile(`(?s)^template: ` + name + `:(\d+)(?::\d+)?: (?:executing "` + name + `" at <(.*?)>: )?(.*)$`)

// missing matches the problem of a key that a map does not have.
var missing = regexp.MustCompile(`map has no entry for key "(.*)"$`)

// valuesFollow are texts of text/template that a value follows.
var valuesFollow = []string{"range can't iterate over ", "can't use "}

// newError returns the error of a template.
func newError(key string, err error) error {
	for _, limit := range []error{errTooLarge, errDocumentTooLarge, errTooManySteps, errTooManyBytes, errDefine, errMark} {
		if errors.Is(err, limit) {
			return &Error{Key: key, Problem: limit.Error()}
		}
	}
	found := &Error{Key: key, Problem: err.Error()}
	at := ""
	if parts := located.FindStringSubmatch(found.Problem); parts != nil {
		found.Line, _ = strconv.Atoi(parts[1]) // The pattern has matched digits.
		at, found.Problem = parts[2], parts[3]
	}
	if action := (*actionError)(nil); errors.As(err, &action) {
		at, found.Problem = "", action.Error()
	}
	found.Problem = strings.Replace(explain(at, found.Problem), " started at "+name+":", " started at line ", 1)
	found.Problem = message.Truncate(strings.Join(strings.Fields(found.Problem), " "), maxProblem)
	return found
}

// explain adds the remedy to a problem, and removes a value that it may contain.
func explain(at, problem string) string {
	for _, text := range valuesFollow {
		if before, _, found := strings.Cut(problem, text); found {
			return before + "range takes an object, a list or a number, not the value of " + at
		}
	}
	if key := missing.FindStringSubmatch(problem); key != nil {
		return fmt.Sprintf("%s is not set: add it to the values, or use index .Values %q with default", at, key[1])
	}
	if strings.HasSuffix(problem, "not defined") {
		return problem + ": the functions are " + strings.Join(Functions(), ", ")
	}
	if at == "" || strings.HasPrefix(at, "{{") {
		return problem
	}
	return "<" + at + ">: " + problem
}
