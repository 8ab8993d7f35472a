// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package passlog checks the JSON log of an operator: docs/logging.md says which fields the lines
// of a pass have.
package passlog

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxLine is the size in bytes that no line exceeds.
const maxLine = 32 << 10

// outside are the messages of a controller outside its passes.
var outside = []string{
	"Starting", "Stopping", "Stopped", "The controller waits for its caches; check that the operator may list and watch them",
}

var (
	reconcileID = regexp.MustCompile(`^[0-9a-f]{8}$`)
	reason      = regexp.MustCompile(`^[A-Z][A-Za-z]+(\|[A-Z][A-Za-z]+)*$`)
)

// Problems returns the errors in a log: lines that are no JSON, lines that are too long, and lines
// of a pass that lack one of its fields. It also returns the number of lines of passes.
func Problems(log string) (problems []string, passes int) {
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			problems = append(problems, fmt.Sprintf("no JSON: %.200s", line))
			continue
		}
		if len(line) > maxLine {
			problems = append(problems, fmt.Sprintf("%d bytes: %.200s", len(line), line))
		}
		if !ofPass(record) {
			continue
		}
		passes++
		if lacking := lacks(record); len(lacking) > 0 {
			problems = append(problems, fmt.Sprintf("no valid %s: %.500s", strings.Join(lacking, ", "), line))
		}
	}
	return problems, passes
}

// ofPass reports whether a record is of a pass. Records of a controller are, unless they are in
// outside.
func ofPass(record map[string]any) bool {
	_, has := record["reconcileID"]
	message, _ := record["msg"].(string)
	return has || record["controller"] != nil && !slices.Contains(outside, message)
}

// lacks returns the names of the fields that a record lacks.
func lacks(record map[string]any) []string {
	object, _ := record["object"].(map[string]any)
	name, _ := object["name"].(string)
	controller, _ := record["controller"].(string)
	_, counts := record["generation"].(float64)
	id, _ := record["reconcileID"].(string)
	why, _ := record["reason"].(string)
	var lacking []string
	for _, field := range []struct {
		name  string
		valid bool
	}{
		{"controller", controller != ""},
		{"object", name != ""},
		{"generation", counts},
		{"reconcileID", reconcileID.MatchString(id)},
		{"reason", reason.MatchString(why)},
	} {
		if !field.valid {
			lacking = append(lacking, field.name)
		}
	}
	return lacking
}
