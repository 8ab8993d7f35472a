// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/cluster"
)

// player is one of the two ways to change a release.
type player interface {
	// deploy installs or upgrades the release.
	deploy(ctx context.Context, chart source, values map[string]any) error
	rollback(ctx context.Context, revision int) error
	uninstall(ctx context.Context) error
	// home returns the player's namespace and its requests.
	home() (namespace string, journal *journal)
}

// step is an operation of both players.
type step struct {
	name string
	do   func(t *testing.T, p player) error
	// class is the class of the expected error.
	class string
	// deviations are the intended differences from this step on.
	deviations []deviation
	// once limits the deviations to this step.
	once bool
}

// deviation is an intended difference between the engine and Helm.
type deviation struct {
	// why is an explanation for the reader.
	why string
	// forget removes the difference from the world of either player.
	forget func(*world)
	// expect turns Helm's world into the engine's expected world. The comparison is then complete.
	expect func(helm *world)
}

// scenario is a chart with a sequence of steps.
type scenario struct {
	name string
	// prepare prepares a player's namespace.
	prepare func(t *testing.T, namespace string)
	// validating makes Helm validate manifests before it sends them.
	validating bool
	// everywhere makes the engine watch all namespaces.
	everywhere bool
	// timeout is the time that each operation has; 0 means the usual time.
	timeout time.Duration
	steps   []step
}

// play runs the scenario with both players, and compares them after each step.
func (s scenario) play(t *testing.T) {
	stockPlayer, enginePlayer := newStock(t, s.namespace(t), &journal{}), newEngine(t, s.namespace(t), s.option)
	stockPlayer.validating = s.validating
	stockPlayer.timeout = cmp.Or(s.timeout, stockPlayer.timeout)
	var deviations []deviation
	for _, step := range s.steps {
		current := slices.Concat(deviations, step.deviations)
		if !step.once {
			deviations = current
		}
		want, _ := s.perform(t, step, stockPlayer)
		got, err := s.perform(t, step, enginePlayer)
		if got.Error != step.class {
			t.Errorf("%s: got error %q, want %q: %v", step.name, got.Error, step.class, err)
		}
		for _, deviation := range current {
			if deviation.expect != nil {
				deviation.expect(&want)
			}
			if deviation.forget != nil {
				deviation.forget(&want)
				deviation.forget(&got)
			}
		}
		if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: the engine differs from Helm (-helm +engine):\n%s", step.name, diff)
		}
	}
}

// option changes the engine of a player.
func (s scenario) option(config *helm.Config) {
	if s.everywhere {
		everywhere(config)
	}
	config.Timeout = cmp.Or(s.timeout, config.Timeout)
}

func (s scenario) namespace(t *testing.T) string {
	t.Helper()
	namespace := newNamespace(t)
	if s.prepare != nil {
		s.prepare(t, namespace)
	}
	return namespace
}

// perform runs the step, and returns the resulting world and the error.
func (s scenario) perform(t *testing.T, step step, p player) (world, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*cluster.DefaultTimeout)
	defer cancel()
	err := step.do(t, p)
	if ctx.Err() != nil {
		t.Fatalf("%s: took too long: %v", step.name, err)
	}
	return look(ctx, t, p, err), err
}

// deploy returns the step that deploys these values.
func deploy(name, chart string, values map[string]any) step {
	return step{name: name, do: func(t *testing.T, p player) error {
		return p.deploy(t.Context(), readChart(t, chart), values)
	}}
}

// fails returns a step that ends with an error of the class.
func (s step) fails(class string) step {
	s.class = class
	return s
}

// but returns a step with lasting deviations.
func (s step) but(deviations ...deviation) step {
	s.deviations = append(s.deviations, deviations...)
	return s
}

// rollback returns the step that rolls back to an earlier revision.
func rollback(revision int) step {
	return step{name: fmt.Sprintf("rollback to revision %d", revision), do: func(t *testing.T, p player) error {
		t.Helper()
		return p.rollback(t.Context(), revision)
	}}
}

// uninstall returns the step that uninstalls the release.
var uninstall = step{name: "uninstall", do: func(t *testing.T, p player) error { return p.uninstall(t.Context()) }}
