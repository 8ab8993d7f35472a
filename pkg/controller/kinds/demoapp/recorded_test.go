// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// journal records the calls of the fakes, in order.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) add(entry string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry)
}

// take returns the entries since the last call.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries := j.entries
	j.entries = nil
	return entries
}

// react records a request and does not handle it.
func (j *journal) react(action clienttesting.Action) (bool, runtime.Object, error) {
	j.note(action)
	return false, nil, nil
}

func (j *journal) note(action clienttesting.Action) {
	verb, what, name := action.GetVerb(), action.GetResource().Resource, ""
	switch a := action.(type) {
	case clienttesting.PatchAction:
		name = a.GetName()
		if a.GetPatchType() == types.ApplyPatchType {
			verb = "apply"
		}
	case clienttesting.GetAction:
		name = a.GetName()
	}
	if sub := action.GetSubresource(); sub != "" {
		what += "/" + sub
	}
	j.add(strings.TrimSuffix(verb+" "+what+" "+name, " "))
}

// recorder is an events.EventRecorder that keeps events in memory.
type recorder struct {
	mu     sync.Mutex
	old    []string
	recent []string
}

// Eventf implements events.EventRecorder.
func (r *recorder) Eventf(regarding, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := "?"
	if object, err := meta.Accessor(regarding); err == nil {
		name = object.GetName()
	}
	r.recent = append(r.recent, strings.Join([]string{name, eventType, reason, action, fmt.Sprintf(note, args...)}, " "))
}

// take returns the events since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	recent := r.recent
	r.old, r.recent = append(r.old, recent...), nil
	return recent
}

// of returns all events of an app.
func (r *recorder) of(name string) []string {
	var found []string
	for _, e := range r.all() {
		if event, ok := strings.CutPrefix(e, name+" "); ok {
			found = append(found, event)
		}
	}
	return found
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(slices.Clone(r.old), r.recent...)
}
