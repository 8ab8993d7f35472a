// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// State is the state of an object in one word.
type State int

const (
	// StateNotReady goes on by itself, as far as the object's own conditions tell.
	StateNotReady State = iota
	// StateStalled does not go on before someone changes an object.
	StateStalled
	// StateDeleting is being deleted.
	StateDeleting
	// StateReady is ready.
	StateReady
)

// String returns the state in words.
func (s State) String() string {
	return [...]string{"Not ready", "Needs a person", "Deleting", "Ready"}[s]
}

// State returns the state of the object.
func (s Summary) State() State {
	switch {
	case s.Deleting:
		return StateDeleting
	case s.Ready == metav1.ConditionTrue:
		return StateReady
	case s.Stalled:
		return StateStalled
	default:
		return StateNotReady
	}
}
