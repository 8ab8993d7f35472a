// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"log/slog"
	"math/bits"
	"strings"
)

// Reason is a set of causes for which an object is reconciled.
type Reason uint32

// The causes. A reconciler may report them in its status and logs. It must decide
// from the desired and the observed state alone.
const (
	// SpecChange: the object appeared, its desired state changed, or its
	// deletion was requested.
	SpecChange Reason = 1 << iota
	// Drift: another client changed a child of the object.
	Drift
	// DependencyReady: a dependency of the object became ready.
	DependencyReady
	// HealthChange: the observed state of a child changed.
	HealthChange
	// PeriodicResync: Result.RequeueAfter of an earlier pass has elapsed.
	PeriodicResync
	// Retry: an earlier pass failed. The reasons of that pass are in the set.
	Retry
	// Deleted: the object was deleted. Another object may have its name now.
	Deleted
)

var reasonNames = [...]string{
	"SpecChange", "Drift", "DependencyReady", "HealthChange", "PeriodicResync", "Retry", "Deleted",
}

// otherReason is the value of the label "reason" for causes that are not listed above.
const otherReason = "Other"

// label returns the value of the label "reason" of a metric: the first cause of the set
// in the order of their declaration.
func (r Reason) label() string {
	if bit := bits.TrailingZeros32(uint32(r)); bit < len(reasonNames) {
		return reasonNames[bit]
	}
	return otherReason
}

// Has reports whether r contains every cause in x.
func (r Reason) Has(x Reason) bool { return r&x == x }

// String returns the causes joined by "|", for example "SpecChange|Drift", and
// "None" for the empty set.
func (r Reason) String() string {
	if r == 0 {
		return "None"
	}
	var names []string
	for rest := r; rest != 0; rest &= rest - 1 {
		bit := bits.TrailingZeros32(uint32(rest))
		if bit < len(reasonNames) {
			names = append(names, reasonNames[bit])
		} else {
			names = append(names, fmt.Sprintf("Reason(%#x)", uint32(1)<<bit))
		}
	}
	return strings.Join(names, "|")
}

// LogValue implements slog.LogValuer. Without it, JSON would have the number.
func (r Reason) LogValue() slog.Value { return slog.StringValue(r.String()) }
