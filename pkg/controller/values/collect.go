// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/redact"
)

// Problem is why values cannot be had.
type Problem struct {
	Reason, Message string
	// Stalled says that a person must act.
	Stalled bool
}

// Collected are the values of one object.
type Collected struct {
	Values map[string]any
	// Problems say why Values are not complete; empty when they are.
	Problems []Problem
	// Secrets are the texts of values from Secrets. If SecretsUnknown, a Secret could not
	// be parsed, and no message may show anything that could come from it.
	Secrets        []string
	SecretsUnknown bool
}

// Collect puts together the values that the references and the inline values of an owner
// bring, the later ones over the earlier ones. Names are the chart's own words for values,
// which are no secrets. The error wraps a *controller.UnfilledError while a watch is being
// filled; the result beside it has the secrets that were read.
func (s *Sources) Collect(
	ctx context.Context, owner cache.ObjectName, references []releasev1alpha1.ValuesReference, inline *runtime.RawExtension, names map[string]bool,
) (Collected, error) {
	var unfilled error
	budget, found := newBudget(), Collected{}
	for i, from := range references {
		values, problem, err := s.readReference(ctx, owner, from, budget)
		if errors.Is(err, controller.ErrNotSynced) {
			// The Secrets after it are read all the same: no message may show what they hold.
			unfilled = errors.Join(unfilled, fmt.Errorf("read valuesFrom[%d]: %w", i, err))
			continue
		}
		if err != nil {
			return found, fmt.Errorf("read valuesFrom[%d]: %w", i, err)
		}
		isSecret := from.Kind == releasev1alpha1.ValuesFromSecret
		if problem != nil {
			found.SecretsUnknown = found.SecretsUnknown || isSecret && problem.Reason == releasev1alpha1.ReasonValuesInvalid
			problem.Message = fmt.Sprintf("valuesFrom[%d]: %s", i, problem.Message)
			found.Problems = append(found.Problems, *problem)
			continue
		}
		if isSecret {
			found.Secrets = append(found.Secrets, textsIn(values, names)...)
		}
		found.Values = Merge(found.Values, values)
	}
	if unfilled != nil || inline == nil {
		return found, unfilled
	}
	values, err := budget.parse(string(inline.Raw))
	if err != nil {
		found.Problems = append(found.Problems, Problem{
			Reason: releasev1alpha1.ReasonValuesInvalid, Message: "spec.values: " + redact.Text(nil, err.Error()), Stalled: true,
		})
		return found, nil //nolint:nilerr // Looking again would find the same: the problem tells.
	}
	found.Values = Merge(found.Values, values)
	return found, nil
}

// readReference reads what one reference names, within the budget.
func (s *Sources) readReference(
	ctx context.Context, owner cache.ObjectName, from releasev1alpha1.ValuesReference, budget *budget,
) (map[string]any, *Problem, error) {
	key := KeyOf(owner.Namespace, from)
	got, err := s.Read(ctx, owner, key)
	var unfilled *controller.UnfilledError
	if errors.As(err, &unfilled) && unfilled.Failure != nil {
		// What is deployed is kept as it is meanwhile. The watch tries again, and wakes the owner.
		return nil, &Problem{Reason: apimeta.ReasonObserveFailed, Message: err.Error()}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	switch {
	case (got.NoObject || got.NoKey) && from.Optional:
		return nil, nil, nil
	case got.NoObject:
		return nil, &Problem{
			Reason:  releasev1alpha1.ReasonValuesNotFound,
			Message: fmt.Sprintf("%s %q, which is to hold key %q, does not exist in this namespace", from.Kind, from.Name, key.Key),
		}, nil
	case got.NoKey:
		return nil, &Problem{
			Reason: releasev1alpha1.ReasonValuesNotFound, Message: fmt.Sprintf("%s %q has no key %q", from.Kind, from.Name, key.Key),
		}, nil
	}
	values, err := budget.parse(got.Text)
	if err != nil {
		return nil, invalid(from, key.Key, err), nil
	}
	return values, nil, nil
}

// KeyOf is the key that a reference in a namespace names.
func KeyOf(namespace string, from releasev1alpha1.ValuesReference) Key {
	key := Key{Object: Object{from.Kind, cache.NewObjectName(namespace, from.Name)}, Key: from.Key}
	if key.Key == "" {
		key.Key = releasev1alpha1.DefaultValuesKey
	}
	return key
}

// invalid is the problem of values that cannot be used. The text of a Secret is never
// repeated.
func invalid(from releasev1alpha1.ValuesReference, key string, err error) *Problem {
	source := fmt.Sprintf("Key %q of %s %q", key, from.Kind, from.Name)
	message := source + " is not a YAML or JSON object"
	var limit *limitError
	switch {
	case errors.As(err, &limit):
		message = source + " cannot be used: " + limit.Error()
	case from.Kind != releasev1alpha1.ValuesFromSecret:
		message += ": " + redact.Text(nil, err.Error())
	}
	return &Problem{Reason: releasev1alpha1.ReasonValuesInvalid, Message: message, Stalled: true}
}

// Merge returns base with the values of over in it. Objects are merged key by key;
// everything else, a list or a null as well, takes the place of what was there,
// as Helm does with several values files. Neither argument is changed.
func Merge(base, over map[string]any) map[string]any {
	result := make(map[string]any, len(base)+len(over))
	for key, value := range base {
		result[key] = value
	}
	for key, value := range over {
		below, isObject := value.(map[string]any)
		under, wasObject := result[key].(map[string]any)
		if isObject && wasObject {
			value = Merge(under, below)
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
