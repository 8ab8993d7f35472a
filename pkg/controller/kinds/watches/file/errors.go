// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/example/demoapp-controller/pkg/message"
)

const (
	// maxErrors limits how many errors of a file are listed.
	maxErrors = 100
	// maxErrorBytes limits the text of one error, because it can quote a text of the file.
	maxErrorBytes = 1024
	// maxQuoted limits a text of the file that an error quotes.
	maxQuoted = 64
)

// Error is an error of the file. Its text is one line:
//
//	watches.yaml:12: entry 2 (cache.my.domain/v1 Memcached): reconcilePeriod: "5 minutes" is not a duration; use for example 5m
type Error struct {
	// File is the name of the file, or the kind of an entry without a file. Line is the line, from
	// 1; 0 if the error is about the whole file.
	File string
	Line int
	// Entry is the number of the entry, from 1; 0 if the error is not about an entry.
	Entry int
	// Kind is the apiVersion and the kind of the entry, as far as the file has them.
	Kind string
	// Field is the path of the field, such as drift.ignore[0].paths. It is empty if the error is
	// about the whole entry.
	Field string
	// Err names the problem and its solution.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&text, ":%d", e.Line)
	}
	text.WriteString(": ")
	if e.Entry > 0 {
		fmt.Fprintf(&text, "entry %d", e.Entry)
		if e.Kind != "" {
			fmt.Fprintf(&text, " (%s)", e.Kind)
		}
		text.WriteString(": ")
	}
	if e.Field != "" {
		text.WriteString(e.Field + ": ")
	}
	return text.String() + message.Line(e.Err.Error(), maxErrorBytes)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// joinedErrors are several errors, one a line.
type joinedErrors []error

// Error implements error.
func (l joinedErrors) Error() string { return errors.Join(l...).Error() }

// Unwrap returns the errors.
func (l joinedErrors) Unwrap() []error { return l }

// Join joins errors of one file, among them those that Parse or Join returned. Errors of type
// [*Error] come first, sorted by line. Join returns nil if all errors are nil.
func Join(errs ...error) error {
	var all joinedErrors
	for _, err := range errs {
		var list joinedErrors
		switch {
		case errors.As(err, &list):
			all = append(all, list...)
		case err != nil:
			all = append(all, err)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	return all
}

// lineOf returns the line of an error. Errors without a line come last.
func lineOf(err error) int {
	var located *Error
	if errors.As(err, &located) && located.Line > 0 {
		return located.Line
	}
	return math.MaxInt
}

// quoted returns a text of the file, in quotes and shortened, for an error.
func quoted(text string) string { return fmt.Sprintf("%q", message.Truncate(text, maxQuoted)) }

// closest returns the known name that an unknown one was probably meant to be; empty without such a
// name.
func closest(unknown string, known []string) string {
	best, distance := "", min(len(unknown), 12)/3+1
	for _, name := range known {
		if len(unknown) > 2*len(name) {
			continue // The distance of a long text takes long to compute.
		}
		if d := editDistance(strings.ToLower(unknown), strings.ToLower(name)); d < distance {
			best, distance = name, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
