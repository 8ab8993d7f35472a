// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/client-go/tools/cache"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/redact"
)

// observeValues puts together the values that valuesFrom and values bring, the
// later ones over the earlier ones. While one of them cannot be had, the release
// waits.
func (c *Controller) observeValues(ctx context.Context, p *pass) error {
	var unfilled error
	budget := newValueBudget()
	for i, from := range p.app.Spec.ValuesFrom {
		values, missing, err := c.readValues(ctx, p, from, budget)
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
	values, err := budget.parse(string(p.app.Spec.Values.Raw))
	if err != nil {
		p.blockers = append(p.blockers, blocker{
			reason: releasev1alpha1.ReasonValuesInvalid, message: "spec.values: " + redact.Text(nil, err.Error()), stalled: true,
		})
		p.valuesUnknown = true
		return nil // Looking again would find the same: the blocker tells.
	}
	p.values = merged(p.values, values)
	return nil
}

// readValues reads what one reference names, within the budget.
func (c *Controller) readValues(
	ctx context.Context, p *pass, from releasev1alpha1.ValuesReference, budget *valueBudget,
) (map[string]any, *blocker, error) {
	key := sourceKey{
		sourceObject{from.Kind, cache.ObjectName{Namespace: p.app.Namespace, Name: from.Name}},
		orElse(from.Key, releasev1alpha1.DefaultValuesKey),
	}
	got, err := c.sources.read(ctx, p.key(), key)
	if failure := failureOf(err); failure != nil {
		// What is deployed is kept as it is meanwhile.
		return nil, &blocker{reason: apimeta.ReasonObserveFailed, message: err.Error()}, nil //nolint:nilerr // The watch tries again, and wakes the app.
	}
	if err != nil {
		return nil, nil, err
	}
	switch {
	case (got.noObject || got.noKey) && from.Optional:
		return nil, nil, nil
	case got.noObject:
		return nil, &blocker{
			reason:  releasev1alpha1.ReasonValuesNotFound,
			message: fmt.Sprintf("%s %q, which is to hold key %q, does not exist in this namespace", from.Kind, from.Name, key.key),
		}, nil
	case got.noKey:
		return nil, &blocker{
			reason: releasev1alpha1.ReasonValuesNotFound, message: fmt.Sprintf("%s %q has no key %q", from.Kind, from.Name, key.key),
		}, nil
	}
	values, err := budget.parse(got.text)
	if err != nil {
		return nil, invalidValues(p, from, key.key, err), nil
	}
	if from.Kind == releasev1alpha1.ValuesFromSecret {
		p.secrets = append(p.secrets, textsIn(values, c.valueNames)...)
	}
	return values, nil, nil
}

// invalidValues is the blocker of values that cannot be used.
func invalidValues(p *pass, from releasev1alpha1.ValuesReference, key string, err error) *blocker {
	source := fmt.Sprintf("Key %q of %s %q", key, from.Kind, from.Name)
	message := source + " is not a YAML or JSON object"
	var limit *limitError
	switch {
	case errors.As(err, &limit):
		message = source + " cannot be used: " + limit.Error()
	case from.Kind != releasev1alpha1.ValuesFromSecret:
		message += ": " + redact.Text(nil, err.Error())
	}
	if from.Kind == releasev1alpha1.ValuesFromSecret {
		p.secretsUnknown = true
	}
	return &blocker{reason: releasev1alpha1.ReasonValuesInvalid, message: message, stalled: true}
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
// may write them. Keys are texts, too, but for those in names: they are the chart's own
// words, and a message without them would not say which value is wrong. A boolean tells
// nobody anything: one of two is right.
func textsIn(value any, names map[string]bool) []string {
	var texts []string
	switch value := value.(type) {
	case string:
		texts = append(texts, value)
	case int64:
		texts = append(texts, redact.NumberForms(strconv.FormatInt(value, 10), float64(value))...)
	case float64:
		texts = append(texts, redact.NumberForms(strconv.FormatFloat(value, 'f', -1, 64), value)...)
	case map[string]any:
		for key, item := range value {
			if !names[key] {
				texts = append(texts, key)
			}
			texts = append(texts, textsIn(item, names)...)
		}
	case []any:
		for _, item := range value {
			texts = append(texts, textsIn(item, names)...)
		}
	}
	return texts
}
