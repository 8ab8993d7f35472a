// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// fight lets another client change the release again after each correction, and returns the calls.
func (w *world) fight(d time.Duration, change func(*releasetest.Release)) []string {
	w.t.Helper()
	w.calls.Take()
	step := max(d/600, 100*time.Millisecond)
	for range d / step {
		w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) {
			if isIntact(r) {
				change(r)
			}
		})
		w.unfinished("a", controller.Drift)
		w.clock.Step(step)
	}
	return w.calls.Take()
}

// isIntact reports whether the last correction is still in place.
func isIntact(r *releasetest.Release) bool {
	for kind, entry := range r.Applied {
		if r.Live[kind] != entry {
			return false
		}
	}
	return r.Record != nil && r.Record.Own
}

func countOf(calls []string, prefix string) (n int) {
	for _, call := range calls {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}

func TestContestIsCorrectedAtGrowingIntervals(t *testing.T) {
	const remedy = "leave the fields out of the chart, or name them in drift.ignore: see Repeated drift in docs/drift.md"
	pauses := " after each correction, so corrections wait up to 5 minutes; " + remedy
	tests := map[string]struct {
		policy releasev1alpha1.DriftPolicy
		change func(*releasetest.Release)
		text   string
	}{
		"a field": {
			change: releasetest.ChangeField("ConfigMap", "/data/ca"),
			text:   `ConfigMap "a": field manager "injector" changes /data/ca again` + pauses,
		},
		"an added field": {
			policy: releasev1alpha1.DriftPolicy{ForeignFields: releasev1alpha1.ForeignFieldsRemove},
			change: releasetest.AddField("ConfigMap", ".data.more"),
			text:   `ConfigMap "a": field manager "injector" changes .data.more again` + pauses,
		},
		"an object that is deleted": {
			change: releasetest.Remove("Service"),
			text:   `Service "a": another client deletes it again` + pauses,
		},
		"a field of a kind with ignored fields": {
			policy: releasev1alpha1.DriftPolicy{Ignore: []releasev1alpha1.DriftIgnore{{Kind: "Deployment", Paths: []string{"/spec/replicas"}}}},
			change: releasetest.ChangeField("Deployment", "/spec/image"),
			text:   `Deployment "a": field manager "injector" changes /spec/image again` + pauses,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := deployed(t, policy(test.policy))

			calls := w.fight(time.Minute, test.change)

			if repairs := countOf(calls, "Repair"); repairs < 8 || repairs > 11 {
				t.Errorf("%d corrections in a minute, want 8 to 11", repairs)
			}
			// Two for each of the free corrections, one for the begin of the contest. An object that is
			// created again has another UID.
			if writes := countOf(calls, "apply shops/status"); writes > 11 && name != "an object that is deleted" || writes > 17 {
				t.Errorf("%d status writes in a minute: %q", writes, calls)
			}
			expect.Equal(t, "Ready", "False "+apimeta.ReasonRepeatedDrift, w.conditions("a")["Ready"])
			expect.Equal(t, "Drifted", "True "+apimeta.ReasonRepeatedDrift, w.conditions("a")["Drifted"])
			expect.Equal(t, "Drifted says", test.text, w.message("a", releasev1alpha1.ConditionDrifted))
			expect.Equal(t, "Ready says", test.text, w.message("a", apimeta.ConditionReady))
			events := w.recorder.Take()
			if begun := "a Warning RepeatedDrift Reconcile " + test.text; len(events) != 6 || !slices.Contains(events, begun) {
				t.Errorf("events %q, want five corrections and %s", events, begun)
			}

			calls = w.fight(time.Hour, test.change)

			if repairs := countOf(calls, "Repair"); repairs < 10 || repairs > 16 {
				t.Errorf("%d corrections in the next hour, want 10 to 16", repairs)
			}
			if writes := countOf(calls, "apply shops/status"); writes > 0 && name != "an object that is deleted" || writes > 16 {
				t.Errorf("%d status writes in the next hour", writes)
			}
			expect.Equal(t, "events in the next hour", []string(nil), w.recorder.Take())

			w.fight(15*time.Minute, func(*releasetest.Release) {})

			expect.Equal(t, "conditions after the contest", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
			expect.Equal(t, "contested objects", 0, w.contested())
			expect.Equal(t, "events", []string{"a Normal DriftCorrected Repair No other client changes an object again and again any more"}, w.recorder.Take())
		})
	}
}

// contested counts the contested objects in the status.
func (w *world) contested() (n int) {
	for _, entry := range w.shop("a").Status.Inventory {
		if entry.Contested {
			n++
		}
	}
	return n
}

// TestOtherDriftOfContestedReleaseIsCorrectedAtOnce plays another object, and another client.
func TestOtherDriftOfContestedReleaseIsCorrectedAtOnce(t *testing.T) {
	tests := map[string]func(*releasetest.Release){
		"another object": releasetest.Remove("Service"),
		"another client": func(r *releasetest.Release) {
			r.Writers = map[string]uint64{"ConfigMap": 7}
			releasetest.ChangeField("ConfigMap", "/data/page")(r)
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			w := deployed(t)
			contest := releasetest.ChangeField("ConfigMap", "/data/ca")
			w.fight(2*time.Minute, contest)
			w.recorder.Take()
			w.engine.Repaired = nil

			w.engine.Mutate(keyOf("a"), change)
			w.unfinished("a", controller.Drift)

			expect.Equal(t, "corrected objects", 1, len(w.engine.Repaired))
			expect.Equal(t, "Ready", "False "+apimeta.ReasonRepeatedDrift, w.conditions("a")["Ready"])
			expect.Equal(t, "Drifted", "True "+apimeta.ReasonRepeatedDrift, w.conditions("a")["Drifted"])
			expect.Equal(t, "events", []string{"a Normal DriftCorrected Repair Applied the objects again"}, w.recorder.Take())
		})
	}
}

func TestNewGenerationEndsContest(t *testing.T) {
	tests := map[string]func(*Shop){
		"the field is ignored": policy(releasev1alpha1.DriftPolicy{Ignore: []releasev1alpha1.DriftIgnore{{Kind: "ConfigMap", Paths: []string{"/data/ca"}}}}),
		"drift is off":         policy(releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftOff}),
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			w := deployed(t)
			w.fight(2*time.Minute, releasetest.ChangeField("ConfigMap", "/data/ca"))

			w.change("a", change)
			w.passes("a", controller.SpecChange)

			expect.Equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
			expect.Equal(t, "Drifted", "", w.conditions("a")["Drifted"])
		})
	}
}

func TestContestContinuesAfterRestart(t *testing.T) {
	w := deployed(t)
	contest := releasetest.ChangeField("ConfigMap", "/data/ca")
	w.fight(2*time.Minute, contest)
	w.recorder.Take()
	before := w.message("a", apimeta.ConditionReady)

	w.start(w.chart)
	calls := w.fight(time.Minute, contest)

	if repairs := countOf(calls, "Repair"); repairs > 6 {
		t.Errorf("%d corrections in the minute after the restart, want at most 6", repairs)
	}
	expect.Equal(t, "Ready", before, w.message("a", apimeta.ConditionReady))
	expect.Equal(t, "status writes", 0, countOf(calls, "apply shops/status"))
	expect.Equal(t, "events", []string(nil), w.recorder.Take())
}

// TestContestOfRevisionsPauses plays a client that runs "helm upgrade" or "helm uninstall" after
// each correction.
func TestContestOfRevisionsPauses(t *testing.T) {
	for name, change := range map[string]func(*releasetest.Release){
		"upgrade":   func(r *releasetest.Release) { releasetest.RewriteRecord(r.Record.Revision+1, "deployed")(r) },
		"uninstall": releasetest.Uninstall,
	} {
		t.Run(name, func(t *testing.T) {
			w := deployed(t)

			calls := w.fight(time.Minute, change)

			if made := countOf(calls, string(helm.ActionUpgrade)) + countOf(calls, string(helm.ActionInstall)); made < 5 || made > 11 {
				t.Errorf("%d revisions in a minute, want 5 to 11: %q", made, calls)
			}
			expect.Equal(t, "Ready", "False "+apimeta.ReasonRepeatedDrift, w.conditions("a")["Ready"])
		})
	}
}
