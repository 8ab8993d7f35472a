// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/cluster"
)

// player is one of the two ways to work on a release.
type player interface {
	// deploy installs the release, or upgrades it.
	deploy(ctx context.Context, chart source, values map[string]any) error
	rollback(ctx context.Context, revision int) error
	uninstall(ctx context.Context) error
	// home is the player's namespace, and what it has written.
	home() (namespace string, journal *journal)
}

// step is something that both players do.
type step struct {
	name string
	do   func(t *testing.T, p player) error
	// class is what kind of error is expected.
	class string
	// deviations are the ways in which the engine differs from here on, on purpose.
	deviations []deviation
	// once has the deviations end with this step.
	once bool
}

// deviation is a way in which the engine does differently on purpose.
type deviation struct {
	// why is an explanation for the reader.
	why string
	// forget takes out of a world, of either player, what the deviation is about.
	forget func(*world)
	// expect makes of Helm's world what the engine's is to be. The comparison is then complete.
	expect func(helm *world)
}

// scenario is a chart and what is done with it.
type scenario struct {
	name string
	// prepare readies a player's namespace.
	prepare func(t *testing.T, namespace string)
	// validating has Helm check manifests before it sends them.
	validating bool
	// everywhere has the engine watch all namespaces.
	everywhere bool
	steps      []step
}

// play plays the scenario through both, and compares after each step.
func (s scenario) play(t *testing.T) {
	stockPlayer, enginePlayer := newStock(t, s.namespace(t), &journal{}), newEngine(t, s.namespace(t), s.option)
	stockPlayer.validating = s.validating
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
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: the engine differs from Helm (-helm +engine):\n%s", step.name, diff)
		}
	}
}

// option is how the engine differs from others.
func (s scenario) option(config *helm.Config) {
	if s.everywhere {
		everywhere(config)
	}
}

func (s scenario) namespace(t *testing.T) string {
	t.Helper()
	namespace := newNamespace(t)
	if s.prepare != nil {
		s.prepare(t, namespace)
	}
	return namespace
}

// perform does the step, and returns what it led to, and its error.
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

// deploy is the step that brings the release to these values.
func deploy(name, chart string, values map[string]any) step {
	return step{name: name, do: func(t *testing.T, p player) error {
		return p.deploy(t.Context(), readChart(t, chart), values)
	}}
}

// fails is a step that ends with an error of the class.
func (s step) fails(class string) step {
	s.class = class
	return s
}

// but is a step with deviations that last.
func (s step) but(deviations ...deviation) step {
	s.deviations = append(s.deviations, deviations...)
	return s
}

// rollback is the step that brings back an older revision.
func rollback(revision int) step {
	return step{name: fmt.Sprintf("rollback to revision %d", revision), do: func(t *testing.T, p player) error {
		t.Helper()
		return p.rollback(t.Context(), revision)
	}}
}

// uninstall is the step that removes the release.
var uninstall = step{name: "uninstall", do: func(t *testing.T, p player) error { return p.uninstall(t.Context()) }}
