// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxChartBytes limits the reference of a chart.
const maxChartBytes = 2048

// errEmpty is the error for a required field without a value.
func errEmpty(name string) error {
	hint := "write that of the CustomResourceDefinition"
	if name == "chart" {
		hint = "write a directory, an archive or a URL"
	}
	return fmt.Errorf("must not be empty; %s", hint)
}

func anyText(string) error { return nil }

// validGroup accepts the group of a kind; empty is the core group.
func validGroup(text string) error {
	if text == "" {
		return nil
	}
	return problems(text, validation.IsDNS1123Subdomain)
}

func validVersion(text string) error {
	if text == "" {
		return errEmpty("version")
	}
	return problems(text, validation.IsDNS1035Label)
}

// validKind accepts the same names as the API server for the kind of a CustomResourceDefinition.
func validKind(text string) error {
	if text == "" {
		return errEmpty("kind")
	}
	if problems(strings.ToLower(text), validation.IsDNS1035Label) != nil {
		return fmt.Errorf("%s is not a kind; a kind has letters and digits, such as Memcached", quoted(text))
	}
	return nil
}

func validChart(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errEmpty("chart")
	case len(text) > maxChartBytes:
		return fmt.Errorf("has %d bytes, and may have %d", len(text), maxChartBytes)
	case strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("must not have line breaks and other control characters")
	}
	return nil
}

func validNamespace(text string) error { return problems(text, validation.IsDNS1123Label) }

func validServiceAccount(text string) error { return problems(text, validation.IsDNS1123Subdomain) }

// problems returns the messages of a validation of apimachinery about a text.
func problems(text string, validate func(string) []string) error {
	if found := validate(text); len(found) > 0 {
		return fmt.Errorf("%s is invalid: %s", quoted(text), found[0])
	}
	return nil
}
