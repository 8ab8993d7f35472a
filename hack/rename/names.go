// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Names are the names that a fork changes. An empty name stays as it is.
type Names struct {
	Module    string
	Name      string
	Group     string
	Namespace string
}

// current are the names of the original tree.
var current = Names{
	Module:    "github.com/example/demoapp-controller",
	Name:      "demoapp-controller",
	Group:     "demo.example.com",
	Namespace: "demoapp-system",
}

// recordLabels is the prefix of the labels of release records. It contains the group, and is
// never changed: an operator recognizes its releases by these labels.
const recordLabels = "engine.demo.example.com"

// maxName is the longest name: names of objects have up to 23 further characters, and labels at
// most 63 in all.
const maxName = 40

var modulePath = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*\.[a-z]+(/[A-Za-z0-9][A-Za-z0-9._-]*)+$`)

// check returns an error for each name that is invalid.
func (n Names) check() error {
	var errs []error
	refuse := func(variable, value, want string, problems ...string) {
		if len(problems) > 0 {
			errs = append(errs, fmt.Errorf("%s=%q must be %s: %s", variable, value, want, strings.Join(problems, ", ")))
		}
	}
	if n == (Names{}) {
		return errors.New("set at least one of MODULE, NAME, GROUP and NAMESPACE")
	}
	if n.Module != "" && !modulePath.MatchString(n.Module) {
		refuse("MODULE", n.Module, "a module path such as github.com/acme/operator", "it has no host or no further part")
	}
	if n.Name != "" {
		problems := validation.IsDNS1035Label(n.Name)
		if len(n.Name) > maxName {
			problems = append(problems, fmt.Sprintf("it has more than %d characters", maxName))
		}
		refuse("NAME", n.Name, "a DNS label", problems...)
	}
	if n.Group != "" {
		problems := validation.IsDNS1123Subdomain(n.Group)
		if !strings.Contains(n.Group, ".") {
			problems = append(problems, "it has no dot")
		}
		refuse("GROUP", n.Group, "an API group", problems...)
	}
	if n.Namespace != "" {
		refuse("NAMESPACE", n.Namespace, "a DNS label", validation.IsDNS1123Label(n.Namespace)...)
	}
	return errors.Join(errs...)
}

// replacer replaces the current names in all their forms.
func (n Names) replacer() (*strings.Replacer, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	// At each position, the first pair that fits wins. So the longer names come first.
	verbatim := func(name string) string { return name }
	var pairs []string
	replace := func(old, replacement string, forms ...func(string) string) {
		if replacement == "" {
			return
		}
		for _, form := range forms {
			pairs = append(pairs, form(old), form(replacement))
		}
	}
	replace(recordLabels, recordLabels, verbatim, escaped)
	// The module path contains the name, and stays if no other is given.
	replace(current.Module, cmp.Or(n.Module, current.Module), verbatim, escaped, modelPackage, repository)
	replace(current.Name, n.Name, verbatim, underscores, upperCase, camelCase)
	replace(current.Group, n.Group, verbatim, escaped)
	replace(current.Namespace, n.Namespace, verbatim, auditNamespace)
	return strings.NewReplacer(pairs...), nil
}

// modelPackage returns the name of a module's OpenAPI models: the parts of the host in reverse,
// and dots for slashes. See ToRESTFriendlyName in k8s.io/kube-openapi/pkg/util.
func modelPackage(module string) string {
	host, path, _ := strings.Cut(module, "/")
	parts := strings.Split(host, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(path, "/", ".")
}

// repository returns the form of a module path without the host, as in ghcr.io/acme/bridge.
func repository(module string) string {
	_, path, _ := strings.Cut(module, "/")
	return path
}

// escaped returns the form of a name in regular expressions and JSONPath.
func escaped(name string) string { return strings.ReplaceAll(name, ".", `\.`) }

// upperCase returns the form of a name in environment variables.
func upperCase(name string) string { return strings.ToUpper(underscores(name)) }

// underscores returns the form of a name in metrics.
func underscores(name string) string { return strings.ReplaceAll(name, "-", "_") }

// camelCase returns the form of a name in alerts. The original name has a capital of its own.
func camelCase(name string) string {
	if name == current.Name {
		return "DemoAppController"
	}
	var words strings.Builder
	for word := range strings.SplitSeq(name, "-") {
		if word != "" {
			words.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return words.String()
}

// auditNamespace returns the namespace of audit records for a namespace of the operator.
func auditNamespace(namespace string) string {
	return strings.TrimSuffix(namespace, "-system") + "-audit"
}
