// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/health"
)

// State is the state of an object in one word.
type State int

const (
	// StateNotReady may become ready without help, according to the conditions of the object.
	StateNotReady State = iota
	// StateNeedsPerson does not go on before someone changes an object.
	StateNeedsPerson
	// StateDeleting is being deleted.
	StateDeleting
	// StateReady is ready.
	StateReady
)

// String returns the state in words.
func (s State) String() string {
	return [...]string{"Not ready", "Needs a person", "Deleting", "Ready"}[s]
}

// State returns the state of the object by its own conditions, so that lists stay cheap. [Cluster.Why] begins
// with the same rules and follows the object to the cause, which may be of another object.
func (s Summary) State() State {
	switch {
	case s.Deleting:
		return StateDeleting
	case s.Ready == metav1.ConditionTrue:
		return StateReady
	case s.needsPerson():
		return StateNeedsPerson
	default:
		return StateNotReady
	}
}

// needsPerson reports whether the conditions of an object that is not ready say that someone has to
// act: it is suspended or Stalled, the API server refuses something, an object is missing, or a pod
// does not start.
func (s Summary) needsPerson() bool {
	verdict, held := holds[s.Reason]
	switch {
	case s.Suspended:
		return true
	case held:
		return verdict == NeedsPerson
	case s.Stalled, missingVerdict(s.Reason) == NeedsPerson:
		return true
	}
	if _, refused := refusalOf(&Node{Reference: s.Reference}, s.Message); refused {
		return true
	}
	pod, problem := health.FailureIn(s.Message)
	return pod != "" && !strings.Contains(problem, claims.Kind) // The claims decide.
}
