// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import "fmt"

// serverMetadata are the fields of metadata that only the API server sets. Sent by a client, they
// change what a request means: a resourceVersion makes it conditional, and a uid binds it to another
// object.
var serverMetadata = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid",
}

// dropServerMetadata removes the fields that only the API server sets, and returns one line for each
// field with a value. Encoders of Go types write "creationTimestamp: null", which needs no line.
func dropServerMetadata(metadata map[string]any) []string {
	var notes []string
	for _, field := range serverMetadata {
		if metadata[field] != nil {
			notes = append(notes, fmt.Sprintf("metadata.%s: only the API server sets this field, so it is left out", field))
		}
		delete(metadata, field)
	}
	return notes
}
