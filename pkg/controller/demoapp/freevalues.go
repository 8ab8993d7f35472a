// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// errNotAnObject is the error of values that are a list, a number or a text.
var errNotAnObject = errors.New("it is not an object (key: value)")

// observeValues puts together the values that valuesFrom and values bring, the
// later ones over the earlier ones. While one of them cannot be had, the release
// waits.
func (c *Controller) observeValues(ctx context.Context, p *pass) error {
	var unfilled error
	for i, from := range p.app.Spec.ValuesFrom {
		values, missing, err := c.readValues(ctx, p, from)
		if errors.Is(err, controller.ErrNotSynced) {
			// The Secrets after it are read all the same: no message may show what they hold.
			unfilled = errors.Join(unfilled, fmt.Errorf("read valuesFrom[%d]: %w", i, err))
			continue
		}
		if err != nil {
			return fmt.Errorf("read valuesFrom[%d]: %w", i, err)
		}
		if missing != nil {
			missing.message = fmt.Sprintf("valuesFrom[%d]: %s", i, missing.message)
			p.blockers = append(p.blockers, *missing)
			p.valuesUnknown = true
			continue
		}
		p.values = merged(p.values, values)
	}
	if unfilled != nil || p.app.Spec.Values == nil {
		return unfilled
	}
	values, err := parseValues(string(p.app.Spec.Values.Raw))
	if err != nil {
		p.blockers = append(p.blockers, blocker{reason: v1alpha1.ReasonValuesInvalid, message: "spec.values: " + err.Error(), stalled: true})
		p.valuesUnknown = true
		return nil //nolint:nilerr // Looking again would find the same: the blocker tells.
	}
	p.values = merged(p.values, values)
	return nil
}

// readValues reads what one reference names.
func (c *Controller) readValues(ctx context.Context, p *pass, from v1alpha1.ValuesReference) (map[string]any, *blocker, error) {
	key := sourceKey{
		sourceObject{from.Kind, cache.ObjectName{Namespace: p.app.Namespace, Name: from.Name}},
		orElse(from.Key, v1alpha1.DefaultValuesKey),
	}
	got, err := c.sources.read(ctx, p.key(), key)
	if failure := failureOf(err); failure != nil {
		// What is deployed is kept as it is meanwhile.
		return nil, &blocker{reason: v1alpha1.ReasonObserveFailed, message: err.Error()}, nil //nolint:nilerr // The watch tries again, and wakes the app.
	}
	if err != nil {
		return nil, nil, err
	}
	switch {
	case (got.noObject || got.noKey) && from.Optional:
		return nil, nil, nil
	case got.noObject:
		return nil, &blocker{
			reason:  v1alpha1.ReasonValuesNotFound,
			message: fmt.Sprintf("%s %q, which is to hold key %q, does not exist in this namespace", from.Kind, from.Name, key.key),
		}, nil
	case got.noKey:
		return nil, &blocker{
			reason: v1alpha1.ReasonValuesNotFound, message: fmt.Sprintf("%s %q has no key %q", from.Kind, from.Name, key.key),
		}, nil
	}
	values, err := parseValues(got.text)
	if err != nil {
		why := ": " + err.Error()
		if from.Kind == v1alpha1.ValuesFromSecret {
			// A parser repeats what it does not understand.
			why = ""
		}
		return nil, &blocker{
			reason:  v1alpha1.ReasonValuesInvalid,
			message: fmt.Sprintf("Key %q of %s %q is not a YAML or JSON object%s", key.key, from.Kind, from.Name, why),
			stalled: true,
		}, nil
	}
	if from.Kind == v1alpha1.ValuesFromSecret {
		p.secrets = append(p.secrets, textsIn(values)...)
	}
	return values, nil, nil
}

// parseValues reads YAML or JSON. Nothing but comments is no values; a key that
// is there twice is an error. Whole numbers stay whole, so that a template does
// not print 1000000 as 1e+06.
func parseValues(text string) (map[string]any, error) {
	asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("it cannot be parsed: %w", err)
	}
	if strings.TrimSpace(string(asJSON)) == "null" {
		return nil, nil
	}
	var parsed any
	if err := utiljson.Unmarshal(asJSON, &parsed); err != nil {
		return nil, fmt.Errorf("it cannot be parsed: %w", err)
	}
	values, ok := parsed.(map[string]any)
	if !ok {
		return nil, errNotAnObject
	}
	return values, nil
}

// merged is base with the values of over in it. Objects are merged key by key;
// everything else, a list or a null as well, takes the place of what was there,
// as Helm does with several values files. Neither argument is changed.
func merged(base, over map[string]any) map[string]any {
	result := make(map[string]any, len(base)+len(over))
	for key, value := range base {
		result[key] = value
	}
	for key, value := range over {
		below, isObject := value.(map[string]any)
		under, wasObject := result[key].(map[string]any)
		if isObject && wasObject {
			value = merged(under, below)
		}
		result[key] = value
	}
	return result
}

// textsIn are all texts that are somewhere in a value, and all numbers as a message
// may write them. A boolean tells nobody anything: one of two is right.
func textsIn(value any) []string {
	var texts []string
	switch value := value.(type) {
	case string:
		texts = append(texts, value)
	case int64:
		texts = append(texts, numberForms(strconv.FormatInt(value, 10), float64(value))...)
	case float64:
		texts = append(texts, numberForms(strconv.FormatFloat(value, 'f', -1, 64), value)...)
	case map[string]any:
		for _, item := range value {
			texts = append(texts, textsIn(item)...)
		}
	case []any:
		for _, item := range value {
			texts = append(texts, textsIn(item)...)
		}
	}
	return texts
}
