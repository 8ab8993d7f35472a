// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/window"
)

const (
	// maxReleaseBytes is the maximum size of the object release of a custom resource.
	maxReleaseBytes = 64 << 10
	// maxReferences limits the items of waitFor and of valuesFrom.
	maxReferences = 16
	// maxAPIVersion and maxKind limit the names of an API.
	maxAPIVersion, maxKind = 317, 63
	// maxSchedule and maxTimeZone limit the texts of upgradeWindow.
	maxSchedule, maxTimeZone = 100, 64
	// maxWindow is the longest duration of upgradeWindow.
	maxWindow = 168 * time.Hour
)

// Release is the top-level object release of a custom resource. The spec of the custom resource has the values
// of the chart.
type Release struct {
	// Policy goes over the policy of the entry, field by field.
	Policy releasev1alpha1.ReleasePolicy
	// WaitFor names objects that must be ready before a change of the release.
	WaitFor []releasev1alpha1.DependencyReference
	// ValuesFrom names ConfigMaps and Secrets with values of the chart. The spec goes over them.
	ValuesFrom []releasev1alpha1.ValuesReference
}

// ParseRelease reads the object release of a custom resource from JSON. Authors of custom resources write
// it, and the CRD may not validate it, so it has the limits of the file. The error names all invalid
// fields.
func ParseRelease(data []byte) (*Release, error) {
	if len(data) > maxReleaseBytes {
		return nil, fmt.Errorf("release: has %d bytes, and may have %d", len(data), maxReleaseBytes)
	}
	root, _, err := document(data)
	if err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	parsed, r := &Release{}, &reader{}
	fields := policyFields(&parsed.Policy)
	maps.Copy(fields, map[string]func(field){
		"suspend": func(f field) { f.boolean(&parsed.Policy.Suspend) },
		"waitFor": func(f field) {
			for _, item := range f.items(maxReferences) {
				parsed.WaitFor = append(parsed.WaitFor, readDependency(item))
			}
		},
		"valuesFrom": func(f field) {
			for _, item := range f.items(maxReferences) {
				parsed.ValuesFrom = append(parsed.ValuesFrom, readValuesReference(item))
			}
		},
	})
	field{Node: root, reader: r, position: &position{}, path: "release"}.object(fields)
	var errs []error
	for _, err := range r.errs {
		if located := (*Error)(nil); errors.As(err, &located) {
			err = fmt.Errorf("%s: %w", located.Field, located.Err)
		}
		errs = append(errs, err)
	}
	return parsed, errors.Join(errs...)
}

// Over returns a policy with the fields that the object release sets. A nil release sets none.
func (r *Release) Over(policy releasev1alpha1.ReleasePolicy) releasev1alpha1.ReleasePolicy {
	if r == nil {
		return policy
	}
	own := r.Policy
	return releasev1alpha1.ReleasePolicy{
		Suspend: own.Suspend || policy.Suspend, UpgradeWindow: cmp.Or(own.UpgradeWindow, policy.UpgradeWindow),
		Remediation: cmp.Or(own.Remediation, policy.Remediation), Drift: cmp.Or(own.Drift, policy.Drift),
		MaxHistory: cmp.Or(own.MaxHistory, policy.MaxHistory), Timeout: cmp.Or(own.Timeout, policy.Timeout),
		WaitForReady: own.WaitForReady || policy.WaitForReady,
	}
}

// policyFields are the fields of a release policy, of an entry as well as of the object release.
func policyFields(policy *releasev1alpha1.ReleasePolicy) map[string]func(field) {
	return map[string]func(field){
		"upgradeWindow": func(f field) { policy.UpgradeWindow = readUpgradeWindow(f) },
		"drift":         func(f field) { policy.Drift = readDrift(f) },
		"remediation":   func(f field) { policy.Remediation = readRemediation(f) },
		"maxHistory": func(f field) {
			policy.MaxHistory = new(int32)
			f.number(policy.MaxHistory, 1, 100)
		},
		"timeout": func(f field) {
			policy.Timeout = &metav1.Duration{}
			f.duration(&policy.Timeout.Duration, time.Second, 24*time.Hour)
		},
		"waitForReady": func(f field) { f.boolean(&policy.WaitForReady) },
	}
}

func readUpgradeWindow(f field) *releasev1alpha1.UpgradeWindow {
	before := f.reader.count()
	read := &releasev1alpha1.UpgradeWindow{TimeZone: "UTC"}
	f.object(map[string]func(field){
		"schedule": func(f field) { f.text(&read.Schedule, sized(maxSchedule)) },
		"duration": func(f field) { f.duration(&read.Duration.Duration, time.Minute, maxWindow) },
		"timeZone": func(f field) { f.text(&read.TimeZone, sized(maxTimeZone)) },
	})
	if f.reader.count() > before {
		return read
	}
	if read.Schedule == "" || read.Duration.Duration == 0 {
		f.refuse("must have a schedule and a duration")
	} else if _, err := window.Parse(read.Schedule, read.TimeZone, read.Duration.Duration); err != nil {
		f.refuse("%w", err)
	}
	return read
}

func readDependency(f field) (read releasev1alpha1.DependencyReference) {
	before := f.reader.count()
	f.object(map[string]func(field){
		"apiVersion": func(f field) { f.text(&read.APIVersion, sized(maxAPIVersion)) },
		"kind":       func(f field) { f.text(&read.Kind, sized(maxKind)) },
		"name":       func(f field) { f.text(&read.Name, validObjectName) },
		"namespace":  func(f field) { f.text(&read.Namespace, validNamespace) },
	})
	if f.reader.count() == before && (read.APIVersion == "" || read.Kind == "" || read.Name == "") {
		f.refuse("must have apiVersion, kind and name")
	}
	return read
}

func readValuesReference(f field) (read releasev1alpha1.ValuesReference) {
	before := f.reader.count()
	f.object(map[string]func(field){
		"kind": func(f field) {
			oneOf(f, &read.Kind, releasev1alpha1.ValuesFromConfigMap, releasev1alpha1.ValuesFromSecret)
		},
		"name": func(f field) { f.text(&read.Name, validObjectName) },
		"key": func(f field) {
			f.text(&read.Key, func(key string) error { return problems(key, validation.IsConfigMapKey) })
		},
		"optional": func(f field) { f.boolean(&read.Optional) },
	})
	if f.reader.count() == before && (read.Kind == "" || read.Name == "") {
		f.refuse("must have kind and name")
	}
	return read
}

func validObjectName(text string) error { return problems(text, validation.IsDNS1123Subdomain) }
