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
	"github.com/example/demoapp-controller/pkg/redact"
)

// Problem is the reason why values are unavailable.
type Problem struct {
	Reason, Message string
	// Stalled says that a user must act.
	Stalled bool
}

// Collected are the values of one object.
type Collected struct {
	Values map[string]any
	// Problems say why Values are incomplete; empty if they are complete.
	Problems []Problem
	// Secrets are the texts of values from Secrets. SecretsUnknown says that a Secret
	// could not be parsed. Messages then must not show any text that may come from it.
	Secrets        []string
	SecretsUnknown bool
}

// Collect merges the values of the references and the inline values of an owner. Later
// values override earlier ones. names are the names of values that the chart itself uses,
// which are not secret. While a watch is not synced, the error wraps a
// *controller.UnfilledError. A result that comes with an error has the secrets that were read.
func (s *Sources) Collect(
	ctx context.Context, owner Owner, references []releasev1alpha1.ValuesReference, inline *runtime.RawExtension, names map[string]bool,
) (Collected, error) {
	var unfilled error
	budget, found := newBudget(), Collected{}
	for i, from := range references {
		values, problem, err := s.readReference(ctx, owner, from, budget)
		if errors.Is(err, controller.ErrNotSynced) {
			// Later Secrets are still read, so that no message shows their values.
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
		return found, nil
	}
	found.Values = Merge(found.Values, values)
	return found, nil
}

// readReference reads the values of one reference, within the budget.
func (s *Sources) readReference(
	ctx context.Context, owner Owner, from releasev1alpha1.ValuesReference, budget *budget,
) (map[string]any, *Problem, error) {
	key := KeyOf(owner.Name.Namespace, from)
	got, err := s.Read(ctx, owner, key)
	var unfilled *controller.UnfilledError
	if errors.As(err, &unfilled) && unfilled.Failure != nil {
		// The deployed release is kept meanwhile. The watch retries, and then enqueues
		// the owner.
		return nil, &Problem{Reason: apimeta.ReasonObserveFailed, Message: err.Error()}, nil //nolint:nilerr // The problem reports it.
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

// KeyOf returns the key that a reference names in a namespace.
func KeyOf(namespace string, from releasev1alpha1.ValuesReference) Key {
	key := Key{Object: Object{from.Kind, cache.NewObjectName(namespace, from.Name)}, Key: from.Key}
	if key.Key == "" {
		key.Key = releasev1alpha1.DefaultValuesKey
	}
	return key
}

// invalid returns the problem of invalid values. It never repeats the text of a Secret.
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

// Merge returns base with the values of over merged into it. Objects are merged key by
// key. All other values of over, including lists and nulls, replace values of base, as with several
// values files in Helm. Neither argument is changed.
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

// textsIn returns all texts in a value, and all numbers in the forms that a message may
// use. Keys are texts, too, except those in names, which are public and needed to say
// which value is invalid. Booleans are omitted, because they reveal nothing.
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
