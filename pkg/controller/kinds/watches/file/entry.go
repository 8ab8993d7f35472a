// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// Scope says where the objects of a release may be.
type Scope string

const (
	// ScopeNamespace allows objects in the namespace of the release only.
	ScopeNamespace Scope = "Namespace"
	// ScopeCluster allows objects in all namespaces and cluster-scoped objects. It is the default,
	// because charts of upstream's operators rely on it.
	ScopeCluster Scope = "Cluster"
)

// OverridesAs says how the values of overrideValues are read.
type OverridesAs string

const (
	// OverridesTyped reads numbers, true, false and null as helm install --set does.
	// helm-operator-plugins reads overrideValues in this way.
	OverridesTyped OverridesAs = "Typed"
	// OverridesText reads every value as a text, as helm install --set-string does. operator-sdk's
	// helm-operator reads overrideValues in this way.
	OverridesText OverridesAs = "Text"
)

// Entry is one entry of the file: a kind, and the chart that is installed for its resources. A
// program can make entries without a file, too. The zero values of ReleaseName, Values and
// Overrides are usable.
type Entry struct {
	// GroupVersionKind is the kind. The group is empty for the core group.
	GroupVersionKind schema.GroupVersionKind
	// Chart is the reference of the chart, as the file has it: a directory or archive, relative to
	// the working directory, or a URL.
	Chart string
	// WatchDependentResources says that the objects of the releases are watched for drift. A file
	// without it means true.
	WatchDependentResources bool
	// Overrides are values that win over the resource's values.
	Overrides Overrides
	// OverridesAs says how the values of Overrides are read. Empty means OverridesTyped.
	OverridesAs OverridesAs
	// ReconcilePeriod is how often a resource is reconciled without an event. Nil means the default
	// of the operator, and 0 means never.
	ReconcilePeriod *time.Duration
	// MaxConcurrentReconciles is the number of workers. 0 means the default of the operator.
	MaxConcurrentReconciles int
	// Selector selects the resources by their labels. It is never nil after [Parse]. A file without
	// it selects all.
	Selector labels.Selector
	// DryRunOption is the dryRunOption of operator-sdk: client, server or none. It has no effect,
	// because changes are not found by dry runs.
	DryRunOption string
	// ReleaseName computes the name of the release of a resource. Nil means the name of the
	// resource.
	ReleaseName *NameTemplate
	// ReleaseNamespace is the namespace of the releases of a cluster-scoped kind. It is empty for
	// other kinds, whose releases are in the namespaces of their resources.
	ReleaseNamespace string
	// Scope is where the objects of a release may be. A file without it means ScopeCluster.
	Scope Scope
	// ServiceAccountName is the ServiceAccount, in the namespace of the release, that the requests
	// of a release are sent as. Empty means the operator's own.
	ServiceAccountName string
	// Takeover says that releases of the same chart that no operator has marked are taken over.
	Takeover bool
	// FieldValidation determines the handling of unknown fields: Strict, Warn or Ignore. Empty means
	// Strict.
	FieldValidation string
	// Policy has the upgradeWindow, drift, remediation, maxHistory, timeout and waitForReady of the
	// file, with the limits and defaults of the API.
	Policy releasev1alpha1.ReleasePolicy
	// Rollout bounds how many resources at a time get a change of the chart or of the entry. A
	// limit of 0 is the default of the operator, and a negative one means no limit.
	Rollout Rollout
	// Values computes the values of the chart from a resource. Nil means its spec.
	Values *ValuesTemplate

	position *position
}

// Identity returns a text that two entries share exactly if they mean the same, so that a new
// version of the file does not restart an entry that has not changed. It may hold secrets.
// DryRunOption, comments, the order of keys and the position in the file do not count. Overrides of
// a file count before their expansion: a template with a random function does not change its entry.
func (e Entry) Identity() string {
	selector := ""
	if e.Selector != nil {
		selector = e.Selector.String()
	}
	text, err := json.Marshal([]any{
		e.GroupVersionKind, e.Chart, e.WatchDependentResources, e.Overrides.source, e.OverridesAs, e.ReconcilePeriod, e.MaxConcurrentReconciles, selector,
		e.ReleaseName.String(), e.ReleaseNamespace, e.Scope, e.ServiceAccountName, e.Takeover, e.FieldValidation, e.Policy,
		e.Values.String(), e.Rollout,
	})
	if err != nil {
		// None of the types can fail to marshal.
		return fmt.Sprintf("%v %p", err, e.position)
	}
	return string(text)
}

// Waits returns why the entry cannot be used although the file is valid: values of overrideValues
// name variables of the environment that are not set. It is nil for an entry that can be used. The
// error shows no value.
func (e Entry) Waits() error { return Join(e.Overrides.unset...) }

// Override returns the values of a resource with the overrides of the entry, and the paths of
// overridden values.
func (e Entry) Override(values map[string]any) (set map[string]any, overridden []string, err error) {
	if e.OverridesAs == OverridesText {
		return chart.SetTexts(values, e.Overrides.values)
	}
	return chart.SetValues(values, e.Overrides.values)
}

// At returns an error about a field of the entry, such as a chart that does not load. It has the
// form of the errors of [Parse]. An entry that is not from a file has its kind in place of the file
// and the line.
func (e Entry) At(path string, err error) *Error {
	if e.position == nil {
		return &Error{File: kindName(e.GroupVersionKind), Field: path, Err: err}
	}
	top, _, _ := strings.Cut(path, ".")
	top, _, _ = strings.Cut(top, "[")
	return e.position.error(e.position.lines[top], path, err)
}

// kindName is "group/version Kind", without the parts that are empty.
func kindName(kind schema.GroupVersionKind) string {
	return strings.TrimSpace(strings.Trim(kind.GroupVersion().String(), "/") + " " + kind.Kind)
}

// Parse reads the content of a file. The name of the file is for the errors, and env is the
// environment of overrideValues, such as [os.LookupEnv].
//
// The error joins all errors of the file, each an [*Error], sorted by line. If there is an error,
// the result has the entries that are valid by themselves. Their charts can be checked, too, so
// that all errors are reported at once.
func Parse(name string, data []byte, env func(string) (string, bool)) ([]Entry, error) {
	root, line, err := document(data)
	if err != nil {
		return nil, &Error{File: name, Line: line, Err: err}
	}
	r := &reader{name: name, env: env}
	list := field{Node: root, reader: r, position: &position{file: name}}
	var entries []Entry
	first := map[schema.GroupKind]*position{}
	for i, item := range list.items(MaxEntries) {
		item.path = ""
		if entry, ok := readEntry(item, i+1, first); ok {
			entries = append(entries, entry)
		}
	}
	return entries, r.err()
}

// readEntry reads an entry, and adds its position to the first ones of their kinds. It returns
// false if the entry has errors.
func readEntry(f field, number int, first map[schema.GroupKind]*position) (Entry, bool) {
	before := f.reader.count()
	f.position = locate(f, number)
	entry := Entry{WatchDependentResources: true, Selector: labels.Everything(), Scope: ScopeCluster, position: f.position}
	f.object(entry.fields())
	if f.Kind == yaml.MappingNode {
		entry.require(f)
	}
	switch earlier := first[entry.GroupVersionKind.GroupKind()]; {
	case entry.GroupVersionKind.Version == "" || entry.GroupVersionKind.Kind == "":
	case earlier == nil:
		first[entry.GroupVersionKind.GroupKind()] = f.position
	default:
		f.reader.report(entry.At("kind", fmt.Errorf("is already the kind of entry %d in line %d; a kind has one entry", earlier.entry, earlier.line)))
	}
	return entry, f.reader.count() == before
}

// locate returns the position of an entry. The fields that name its kind are read before the errors
// that need it.
func locate(f field, number int) *position {
	p := &position{file: f.position.file, line: f.Line, entry: number, lines: map[string]int{}}
	texts := map[string]string{}
	for i := 0; f.Kind == yaml.MappingNode && i+1 < len(f.Content); i += 2 {
		key, value := f.Content[i], f.Content[i+1]
		if !isNull(value) {
			p.lines[key.Value], texts[key.Value] = key.Line, scalar(value)
		}
	}
	p.kind = kindName(schema.GroupVersionKind{Group: texts["group"], Version: texts["version"], Kind: texts["kind"]})
	return p
}

// require reports required fields that are absent. Those that are there have been checked.
func (e *Entry) require(f field) {
	for _, name := range []string{"version", "kind", "chart"} {
		if _, set := f.position.lines[name]; !set {
			f.reader.report(e.At(name, errEmpty(name)))
		}
	}
}

// fields are the fields of an entry.
func (e *Entry) fields() map[string]func(field) {
	fields := map[string]func(field){
		"group":                   func(f field) { f.text(&e.GroupVersionKind.Group, validGroup) },
		"version":                 func(f field) { f.text(&e.GroupVersionKind.Version, validVersion) },
		"kind":                    func(f field) { f.text(&e.GroupVersionKind.Kind, validKind) },
		"chart":                   func(f field) { f.text(&e.Chart, validChart) },
		"watchDependentResources": func(f field) { f.boolean(&e.WatchDependentResources) },
		"overrideValues":          func(f field) { e.Overrides = readOverrides(f) },
		"overrideValuesAs":        func(f field) { oneOf(f, &e.OverridesAs, OverridesTyped, OverridesText) },
		"reconcilePeriod":         func(f field) { e.ReconcilePeriod = readPeriod(f) },
		"maxConcurrentReconciles": func(f field) {
			var workers int32
			f.number(&workers, 1, maxWorkers)
			e.MaxConcurrentReconciles = int(workers)
		},
		"selector":     func(f field) { e.Selector = readSelector(f) },
		"dryRunOption": func(f field) { oneOf(f, &e.DryRunOption, "client", "server", "none") },
		"releaseName": func(f field) {
			f.text(new(string), func(text string) (err error) {
				e.ReleaseName, err = ParseNameTemplate(text)
				return err
			})
		},
		"releaseNamespace":   func(f field) { f.text(&e.ReleaseNamespace, validNamespace) },
		"scope":              func(f field) { oneOf(f, &e.Scope, ScopeNamespace, ScopeCluster) },
		"serviceAccountName": func(f field) { f.text(&e.ServiceAccountName, validServiceAccount) },
		"takeover":           func(f field) { f.boolean(&e.Takeover) },
		"fieldValidation": func(f field) {
			oneOf(f, &e.FieldValidation, metav1.FieldValidationStrict, metav1.FieldValidationWarn, metav1.FieldValidationIgnore)
		},
		"values":  func(f field) { e.Values = readValues(f) },
		"rollout": func(f field) { e.Rollout = readRollout(f) },
	}
	maps.Copy(fields, policyFields(&e.Policy))
	return fields
}

// Rollout has the limits of a rollout.
type Rollout struct{ MaxConcurrent, MaxFailures int }

// maxRollout limits the limits of a rollout.
const maxRollout = 1_000_000

// readRollout reads rollout. In the file, 0 means no limit.
func readRollout(f field) (rollout Rollout) {
	limit := func(into *int) func(field) {
		return func(f field) {
			var number int32
			if f.number(&number, 0, maxRollout); number == 0 {
				number = -1
			}
			*into = int(number)
		}
	}
	f.object(map[string]func(field){"maxConcurrent": limit(&rollout.MaxConcurrent), "maxFailures": limit(&rollout.MaxFailures)})
	return rollout
}

// readValues reads values. An object is refused with a hint, because it looks like the values of a
// chart.
func readValues(f field) (template *ValuesTemplate) {
	if f.Kind == yaml.MappingNode {
		f.refuse("must be a text, got an object; write \"values: |\" and indent the object below it")
		return nil
	}
	f.text(new(string), func(text string) (err error) {
		template, err = ParseValuesTemplate(text)
		return err
	})
	return template
}

const (
	// maxWorkers limits maxConcurrentReconciles.
	maxWorkers = 1000
	// minPeriod and maxPeriod limit reconcilePeriod, unless it is 0.
	minPeriod = time.Second
	maxPeriod = 365 * 24 * time.Hour
)

// readPeriod reads reconcilePeriod, a metav1.Duration in helm-operator-plugins. As there, 0 means
// never.
func readPeriod(f field) *time.Duration {
	period := new(time.Duration)
	if f.duration(period, 0, maxPeriod); *period > 0 && *period < minPeriod {
		f.refuse("must be 0 or from %s to %s, got %s", short(minPeriod), short(maxPeriod), quoted(f.Value))
	}
	return period
}

// readSelector reads a metav1.LabelSelector.
func readSelector(f field) labels.Selector {
	var selector metav1.LabelSelector
	before := f.reader.count()
	f.object(map[string]func(field){
		"matchLabels": func(f field) {
			selector.MatchLabels = map[string]string{}
			f.keys(joinKey, func(key *yaml.Node, value field) {
				var text string
				value.text(&text, anyText)
				selector.MatchLabels[key.Value] = text
			})
		},
		"matchExpressions": func(f field) {
			for _, item := range f.items(maxRequirements) {
				selector.MatchExpressions = append(selector.MatchExpressions, readRequirement(item))
			}
		},
	})
	compiled, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil && f.reader.count() == before {
		f.refuse("is not a valid label selector: %w", err)
	}
	return compiled
}

// maxRequirements limits the items of matchExpressions and of their values.
const maxRequirements = 100

func readRequirement(f field) (requirement metav1.LabelSelectorRequirement) {
	f.object(map[string]func(field){
		"key": func(f field) { f.text(&requirement.Key, anyText) },
		"operator": func(f field) {
			oneOf(f, &requirement.Operator,
				metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)
		},
		"values": func(f field) {
			for _, item := range f.items(maxRequirements) {
				var text string
				item.text(&text, anyText)
				requirement.Values = append(requirement.Values, text)
			}
		},
	})
	return requirement
}
