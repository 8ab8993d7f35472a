// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"

	"github.com/aymanbagabas/go-udiff"
)

// Difference is the difference of one object, or of the values of a release, as YAML in which
// secrets are masked.
type Difference struct {
	Reference

	// Title names the subject of the comparison, if it is not an object.
	Title string
	// Before and After are empty for an absent object.
	Before, After string
	// Fields are the differing fields of the live object that other field managers own.
	Fields []FieldOwner
	// RestartsPods says that the pod template of an existing workload changes.
	RestartsPods bool
	// Refused says why the API server would refuse the object; empty if it would not.
	Refused string
	// Note says why the comparison is less exact than usual; empty if nothing does.
	Note string
}

// FieldOwner is the owner of a field.
type FieldOwner struct {
	// Path is written as in managedFields, as in .spec.template.spec.containers[name="web"].image.
	Path string
	// Manager is the field manager.
	Manager string
}

// Differs reports whether there is a difference.
func (d Difference) Differs() bool { return d.Before != d.After }

// Name names the subject of the comparison.
func (d Difference) Name() string { return cmp.Or(d.Title, d.Reference.String()) }

// contextLines is the number of equal lines around a difference.
const contextLines = 3

// Unified returns the difference in the format of diff -u; empty without one. from and to describe
// the two sides.
func (d Difference) Unified(from, to string) string {
	if !d.Differs() {
		return ""
	}
	label := func(text, side string) string {
		if text == "" {
			return "/dev/null"
		}
		return d.Name() + "\t" + side
	}
	text, err := udiff.ToUnified(label(d.Before, from), label(d.After, to), d.Before, udiff.Lines(d.Before, d.After), contextLines)
	if err != nil {
		return err.Error() // The edits belong to the text.
	}
	return text
}
