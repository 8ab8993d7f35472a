// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"strings"
)

// maxRefusals is the number of errors that a message about several objects has.
const maxRefusals = 10

// refusals collects the errors about the objects of one manifest, so that a user can correct all
// errors at once.
type refusals struct {
	errs []error
	// more is the number of errors that are not kept.
	more int
}

// add adds errors about objects of a template; source is empty if it is not known.
func (r *refusals) add(source string, errs ...error) {
	for _, err := range errs {
		switch {
		case len(r.errs) == maxRefusals:
			r.more++
		case source != "":
			r.errs = append(r.errs, fmt.Errorf("%s: %w", source, err))
		default:
			r.errs = append(r.errs, err)
		}
	}
}

// joined returns one error of one line for several errors, or nil.
func joined(errs []error) error {
	var all refusals
	all.add("", errs...)
	return all.err()
}

// err returns one error of one line that matches all collected errors, or nil.
func (r *refusals) err() error {
	switch len(r.errs) {
	case 0:
		return nil
	case 1:
		return r.errs[0]
	default:
		return r
	}
}

// Error implements error.
func (r *refusals) Error() string {
	texts := make([]string, 0, len(r.errs))
	for _, err := range r.errs {
		texts = append(texts, err.Error())
	}
	text := fmt.Sprintf("%d errors: %s", len(r.errs)+r.more, strings.Join(texts, "; "))
	if r.more > 0 {
		text += fmt.Sprintf("; and %d more", r.more)
	}
	return text
}

// Unwrap returns the errors.
func (r *refusals) Unwrap() []error { return r.errs }
