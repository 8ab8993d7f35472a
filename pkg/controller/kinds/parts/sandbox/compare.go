// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"errors"
	"strings"
)

// The functions of this file compare like text/template, but charge the meter.

var (
	errIncompatible = errors.New("takes two texts, two numbers of the same type, or two of true and false")
	errNoOrder      = errors.New("takes two texts, or two numbers of the same type")
)

// equalsAny reports whether v equals one of the other values.
func (m *meter) equalsAny(v any, others ...any) (bool, error) {
	if len(others) == 0 {
		return false, errors.New("takes at least two values")
	}
	for _, other := range others {
		if equal, err := m.equal(v, other); equal || err != nil {
			return equal, err
		}
	}
	return false, nil
}

func (m *meter) differs(a, b any) (bool, error) {
	equal, err := m.equal(a, b)
	return !equal && err == nil, err
}

func (m *meter) equal(a, b any) (bool, error) {
	if a == nil || b == nil {
		return a == nil && b == nil, nil
	}
	if first, ok := a.(bool); ok {
		second, ok := b.(bool)
		if !ok {
			return false, errIncompatible
		}
		return first == second, nil
	}
	order, err := m.compare(a, b)
	if err != nil && !errors.Is(err, errTooManyBytes) {
		err = errIncompatible
	}
	return err == nil && order == 0, err
}

// ordered returns a function that decides by the order of two values.
func (m *meter) ordered(decide func(order int) bool) func(a, b any) (bool, error) {
	return func(a, b any) (bool, error) {
		order, err := m.compare(a, b)
		return err == nil && decide(order), err
	}
}

// compare charges two texts or numbers, and returns their order.
func (m *meter) compare(a, b any) (int, error) {
	switch first := whole(a).(type) {
	case string:
		if second, ok := b.(string); ok {
			return strings.Compare(first, second), m.process(len(first) + len(second))
		}
	case int64:
		if second, ok := whole(b).(int64); ok {
			return cmp.Compare(first, second), nil
		}
	case float64:
		if second, ok := b.(float64); ok {
			return cmp.Compare(first, second), nil
		}
	}
	return 0, errNoOrder
}

// whole converts the types of whole numbers in templates: literals, values, and the bytes of a
// text.
func whole(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case uint8:
		return int64(v)
	default:
		return v
	}
}
