// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/inspect"
)

func (c *command) wait() *cobra.Command {
	var s selection
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait (KIND/NAME ... | KIND -l LABELS | --all)",
		Short: "Wait until objects are ready, or one of them needs a person",
		Long: "Wait until all objects are ready, or all others are ready and some are Stalled, which needs a person. Changes of the status are " +
			"printed. The conditions decide: an object that needs a person only by what why finds below it, such as an image of a pod, still waits.\n\n" +
			"Exit codes: 0 ready, 1 timeout, 2 needs a person, 3 the command failed.",
		Example:           "  kubectl demoapp wait demoapp/web --timeout=2m\n\n  # After kubectl apply\n  kubectl demoapp wait --all -n shop",
		ValidArgsFunction: c.completeMany,
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := c.cluster()
			if err != nil {
				return err
			}
			objects, err := c.selected(cmd.Context(), cluster, s, args)
			if err != nil {
				return err
			}
			return c.await(cmd.Context(), cluster, awaited{objects: objects}, timeout)
		},
	}
	s.addFlags(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "time after which the command ends with exit code 1; 0 checks once")
	return cmd
}

// awaited are the objects that a command waits for.
type awaited struct {
	objects []*unstructured.Unstructured
	// handled is the value that the operator repeats when it has handled a request; empty for none.
	handled string
	// suspended waits until the objects are suspended, and not until they are ready.
	suspended bool
}

// progress returns the state of one object.
func (a awaited) progress(object *unstructured.Unstructured) state {
	verdict, text := inspect.Progress(object, a.handled)
	if !a.suspended {
		return state{seen: true, verdict: verdict, text: fmt.Sprintf("%s: %s", verdict, text)}
	}
	if status := inspect.StatusOf(object); status.True(apimeta.ConditionSuspended) {
		return state{seen: true, verdict: inspect.Ready, text: "suspended: " + status.Condition(apimeta.ConditionSuspended).Message}
	}
	return state{seen: true, verdict: inspect.Waits, text: fmt.Sprintf("%s: the operator has not seen the suspension yet", inspect.Waits)}
}

// errTimeout ends a wait at its timeout.
var errTimeout = errors.New("timeout")

// await follows the objects until each is ready or needs a person, and prints each change of their
// state. It answers exitWaits after the timeout, and exitActs if an object needs a person.
func (c *command) await(ctx context.Context, cluster *inspect.Cluster, a awaited, timeout time.Duration) error {
	if timeout < 0 {
		return fmt.Errorf("--timeout: %s is negative; 0 checks once", timeout)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	ctx, finish := context.WithCancelCause(ctx)
	defer finish(nil)
	w := &waiter{command: c, awaited: a, states: map[inspect.Reference]state{}, finished: func() { finish(errFinished) }}
	for _, object := range a.objects {
		w.states[inspect.ReferenceOf(object)] = state{}
	}
	if timeout == 0 {
		w.finished = func() {}
		for _, object := range a.objects {
			w.changed(object, false)
		}
		if w.waits() {
			fmt.Fprintln(c.streams.ErrOut, w.unfinished())
			return answerError(exitWaits)
		}
		return w.answer()
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, what := range watchesFor(a.objects) {
		group.Go(func() error { return cluster.FollowObjects(ctx, what, w.changed) })
	}
	err := group.Wait()
	switch {
	case errors.Is(err, errTimeout):
		fmt.Fprintf(c.streams.ErrOut, "timeout after %s: %s\n", timeout, w.unfinished())
		return answerError(exitWaits)
	case errors.Is(err, errFinished):
		return w.answer()
	default:
		return err
	}
}

// errFinished ends the watches of a wait that is over.
var errFinished = errors.New("finished")

// watchesFor returns the watches that show all objects: one for each object if there are few, or
// one for each kind and namespace.
func watchesFor(objects []*unstructured.Unstructured) []inspect.Followed {
	const few = 5
	seen := map[inspect.Followed]bool{}
	var found []inspect.Followed
	for _, object := range objects {
		what := inspect.Followed{Kind: object.GroupVersionKind(), Namespace: object.GetNamespace()}
		if len(objects) <= few {
			what.Name = object.GetName()
		}
		if !seen[what] {
			seen[what] = true
			found = append(found, what)
		}
	}
	return found
}

// state is the last known state of an awaited object. The zero value stands for an object that was
// not seen yet. text says the state in a line.
type state struct {
	seen    bool
	verdict inspect.Verdict
	text    string
}

// waiter collects the states of the awaited objects.
type waiter struct {
	*command
	awaited

	finished func()

	mu     sync.Mutex
	states map[inspect.Reference]state // guarded by mu
}

// changed takes the state of an object over, and ends the wait when no object waits any more.
func (w *waiter) changed(object *unstructured.Unstructured, deleted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reference := inspect.ReferenceOf(object)
	last, isAwaited := w.states[reference]
	if !isAwaited {
		return
	}
	next := w.progress(object)
	if deleted {
		next.verdict, next.text = inspect.NeedsPerson, fmt.Sprintf("%s: the object was deleted", inspect.NeedsPerson)
	}
	if next == last {
		return
	}
	w.states[reference] = next
	fmt.Fprintf(w.streams.ErrOut, "%s: %s\n", printable(reference.String()), printable(next.text))
	if !w.waits() {
		w.finished()
	}
}

// waits reports whether an object waits, or was not seen yet.
func (w *waiter) waits() bool {
	for _, state := range w.states {
		if !state.seen || state.verdict == inspect.Waits {
			return true
		}
	}
	return false
}

// unfinished says how many objects still wait, and which command explains it.
func (w *waiter) unfinished() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var waiting []inspect.Reference
	for _, object := range w.objects {
		if state := w.states[inspect.ReferenceOf(object)]; !state.seen || state.verdict == inspect.Waits {
			waiting = append(waiting, inspect.ReferenceOf(object))
		}
	}
	if len(waiting) == 0 {
		return "all objects had ended" // The timeout and the last change happened at the same time.
	}
	return fmt.Sprintf("%d of %d objects wait; %s", len(waiting), len(w.objects), whyCommand(waiting[0]))
}

// answer is the exit code of a wait that is over.
func (w *waiter) answer() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, object := range w.objects {
		if reference := inspect.ReferenceOf(object); w.states[reference].verdict == inspect.NeedsPerson {
			fmt.Fprintf(w.streams.ErrOut, "%s\n", whyCommand(reference))
			return answerError(exitActs)
		}
	}
	return nil
}
