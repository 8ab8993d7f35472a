// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

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

// Journal records the calls of fakes, in order. The zero value is ready to use.
type Journal struct {
	mu      sync.Mutex
	entries []string
}

// Add records a call.
func (j *Journal) Add(entry string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry)
}

// Take returns the calls since the last Take.
func (j *Journal) Take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries := j.entries
	j.entries = nil
	return entries
}

// React records a request of a fake clientset, such as "apply shops/status a", and does not
// handle it.
func (j *Journal) React(action clienttesting.Action) (bool, runtime.Object, error) {
	j.Note(action)
	return false, nil, nil
}

// Note records a request of a fake clientset.
func (j *Journal) Note(action clienttesting.Action) {
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
	j.Add(strings.TrimSuffix(verb+" "+what+" "+name, " "))
}

// Recorder is an events.EventRecorder that keeps events in memory: "name type reason action
// note". The zero value is ready to use.
type Recorder struct {
	mu     sync.Mutex
	old    []string
	recent []string
}

// Eventf implements events.EventRecorder.
func (r *Recorder) Eventf(regarding, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := "?"
	if object, err := meta.Accessor(regarding); err == nil {
		name = object.GetName()
	}
	r.recent = append(r.recent, strings.Join([]string{name, eventType, reason, action, fmt.Sprintf(note, args...)}, " "))
}

// Take returns the events since the last Take.
func (r *Recorder) Take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	recent := r.recent
	r.old, r.recent = append(r.old, recent...), nil
	return recent
}

// Of returns all events of an object, without its name.
func (r *Recorder) Of(name string) []string {
	var found []string
	for _, e := range r.All() {
		if event, ok := strings.CutPrefix(e, name+" "); ok {
			found = append(found, event)
		}
	}
	return found
}

// All returns all events.
func (r *Recorder) All() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(slices.Clone(r.old), r.recent...)
}
