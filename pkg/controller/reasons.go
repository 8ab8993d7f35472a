// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"math/bits"
	"strings"
)

// Reason is a set of causes for which an object is reconciled.
type Reason uint32

// The causes. They inform a reconciler, for its status and logs; what to do
// follows from the observed state alone.
const (
	// SpecChange: the object appeared, its desired state changed, or its
	// deletion was asked for.
	SpecChange Reason = 1 << iota
	// Drift: an object that this one owns was changed behind its back.
	Drift
	// DependencyReady: something that this object waited for is there.
	DependencyReady
	// HealthChange: the observed state of an owned object changed.
	HealthChange
	// PeriodicResync: Result.RequeueAfter of an earlier pass has gone by.
	PeriodicResync
	// Retry: an earlier pass failed. The reasons of that pass are in the set.
	Retry
	// Deleted: the object is gone from the API, perhaps replaced by another
	// of the same name.
	Deleted
)

var reasonNames = [...]string{
	"SpecChange", "Drift", "DependencyReady", "HealthChange", "PeriodicResync", "Retry", "Deleted",
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
