// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// The limits of pkg/apis/release/v1alpha1. A test compares them with the CRD of DemoApp.
const (
	maxRetries         = 100
	maxIgnoreRules     = 32
	maxIgnoredPaths    = 32
	maxIgnoredKind     = 63
	maxIgnoredName     = 253
	maxIgnoredPathSize = 512
)

// defaultRetries is the default of remediation.retries.
const defaultRetries = 3

// ignoredPath is the form of a JSON pointer in drift.ignore.
var ignoredPath = regexp.MustCompile(`^(/([^~/]|~0|~1)+)+$`)

// identityPaths are the marks by which an object belongs to a release.
var identityPaths = []string{
	"/metadata/labels/app.kubernetes.io~1managed-by/",
	"/metadata/annotations/meta.helm.sh~1release-name/",
	"/metadata/annotations/meta.helm.sh~1release-namespace/",
}

func readRemediation(f field) *releasev1alpha1.Remediation {
	retries := int32(defaultRetries)
	remediation := &releasev1alpha1.Remediation{Retries: &retries, Strategy: releasev1alpha1.RemediationRollback}
	f.object(map[string]func(field){
		"retries": func(f field) { f.number(remediation.Retries, 0, maxRetries) },
		"strategy": func(f field) {
			oneOf(f, &remediation.Strategy, releasev1alpha1.RemediationRollback, releasev1alpha1.RemediationNone)
		},
	})
	return remediation
}

func readDrift(f field) *releasev1alpha1.DriftPolicy {
	drift := &releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftCorrect, ForeignFields: releasev1alpha1.ForeignFieldsKeep}
	f.object(map[string]func(field){
		"mode": func(f field) {
			oneOf(f, &drift.Mode, releasev1alpha1.DriftCorrect, releasev1alpha1.DriftWarn, releasev1alpha1.DriftOff)
		},
		"foreignFields": func(f field) {
			oneOf(f, &drift.ForeignFields, releasev1alpha1.ForeignFieldsKeep, releasev1alpha1.ForeignFieldsRemove)
		},
		"ignore": func(f field) {
			for _, item := range f.items(maxIgnoreRules) {
				drift.Ignore = append(drift.Ignore, readIgnore(item))
			}
		},
	})
	return drift
}

func readIgnore(f field) (rule releasev1alpha1.DriftIgnore) {
	before := f.reader.count()
	f.object(map[string]func(field){
		"kind": func(f field) { f.text(&rule.Kind, sized(maxIgnoredKind)) },
		"name": func(f field) { f.text(&rule.Name, sized(maxIgnoredName)) },
		"paths": func(f field) {
			for _, item := range f.items(maxIgnoredPaths) {
				var path string
				item.text(&path, validIgnoredPath)
				rule.Paths = append(rule.Paths, path)
			}
		},
	})
	if f.reader.count() == before && (rule.Kind == "" || len(rule.Paths) == 0) {
		f.refuse("must have a kind and at least one path")
	}
	return rule
}

// sized accepts a text of 1 to limit characters.
func sized(limit int) func(string) error {
	return func(text string) error {
		if length := utf8.RuneCountInString(text); length < 1 || length > limit {
			return fmt.Errorf("must have 1 to %d characters, got %d", limit, length)
		}
		return nil
	}
}

// validIgnoredPath accepts the paths that the API accepts in spec.drift.ignore.
func validIgnoredPath(path string) error {
	if err := sized(maxIgnoredPathSize)(path); err != nil {
		return err
	}
	if !ignoredPath.MatchString(path) {
		return fmt.Errorf("%s is not a JSON pointer such as /spec/replicas", quoted(path))
	}
	below := path + "/"
	if strings.HasPrefix(below, "/apiVersion/") || strings.HasPrefix(below, "/kind/") {
		return errors.New("apiVersion and kind cannot be ignored: name a field below spec, data or another part of the object")
	}
	if strings.HasPrefix(below, "/metadata/") && !strings.HasPrefix(path, "/metadata/labels/") && !strings.HasPrefix(path, "/metadata/annotations/") {
		return errors.New("in the metadata, only single labels and annotations can be ignored, such as /metadata/labels/team")
	}
	for _, identity := range identityPaths {
		if strings.HasPrefix(below, identity) {
			return errors.New("the label app.kubernetes.io/managed-by and the annotations of meta.helm.sh cannot be ignored: " +
				"the operator identifies its objects by them")
		}
	}
	return nil
}
