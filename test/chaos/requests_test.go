// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// shortRuns is the number of disturbed runs of each subject in a short test.
const shortRuns = 2

const retried = string(releasev1alpha1.UpgradeReasonRetryAfterFailure)

// ofFault are the differences that a failed request or a crash may cause: the reason of a repeated
// attempt, its changed fields, and a correction whose status write was lost.
var ofFault = cmp.Options{
	without("changed"), without("lastCorrection"),
	inStatus(cmp.FilterValues(func(a, b string) bool { return a == retried || b == retried }, cmp.Ignore())),
}

// without ignores fields of a name in a status.
func without(field string) cmp.Option {
	return inStatus(cmpopts.IgnoreMapEntries(func(key string, _ any) bool { return key == field }))
}

// inStatus limits an option to the fields of a status.
func inStatus(option cmp.Option) cmp.Option {
	return cmp.FilterPath(func(path cmp.Path) bool {
		return slices.ContainsFunc(path, func(step cmp.PathStep) bool {
			index, ok := step.(cmp.MapIndex)
			return ok && index.Key().String() == "status"
		})
	}, option)
}

// TestEveryRequestFails breaks, in runs of their own, each request that the operator sends for an
// object, in each way. A short test breaks some, which the seed selects.
func TestEveryRequestFails(t *testing.T) { //nolint:tparallel // The other tests break the requests of all runs.
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, sent := undisturbed[name](t)
			t.Logf("%d requests: %q", len(sent), sent)
			for _, f := range failures(len(sent)) {
				t.Run(fmt.Sprintf("%d %s", f.nth, f.fault), func(t *testing.T) {
					t.Parallel()
					namespace := shared.Namespace(t)
					countMet(t, namespace, 1)
					sabotage.watch(namespace, plan{nth: f.nth, times: 1, fault: faults[f.fault]})
					defer func() {
						if t.Failed() {
							broken := sabotage.sent(namespace)
							t.Logf("the request that failed: %q", broken[min(f.nth-1, len(broken)):min(f.nth, len(broken))])
						}
					}()

					came := play(t, s, namespace, &want, nil, f.differences())

					assertOutcome(t, want, came)
				})
			}
		})
	}
}

// A failure describes a disturbed run: which request fails, from 1, and how.
type failure struct {
	nth   int
	fault string
}

// differences are those that the failure may make.
func (f failure) differences() cmp.Option {
	if f.fault == "409" {
		return ofRefusal
	}
	return ofFault
}

// failures returns the failures of a subject's disturbed runs.
func failures(requests int) []failure {
	var all []failure
	for nth := range requests {
		for _, fault := range faultNames {
			all = append(all, failure{nth + 1, fault})
		}
	}
	if !testing.Short() {
		return all
	}
	random := rand.New(rand.NewPCG(uint64(*seed), uint64(requests)))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(shortRuns, len(all))]
}

// undisturbed has a function for each subject that plays it without a fault, once.
var undisturbed = func() map[string]func(t *testing.T) (outcome, []string) {
	plays := map[string]func(t *testing.T) (outcome, []string){}
	for name, s := range subjects {
		var once sync.Once
		var came outcome
		var sent []string
		plays[name] = func(t *testing.T) (outcome, []string) {
			t.Helper()
			once.Do(func() { came, sent = playUndisturbed(t, s, shared.Namespace(t), shared.Namespace(t)) })
			if sent == nil {
				t.Fatal("the undisturbed run failed")
			}
			return came, sent
		}
	}
	return plays
}()

// playUndisturbed plays a subject in two namespaces without a fault. It returns the outcome and the
// operator's requests. That both outcomes are equal shows that a difference is due to a fault.
func playUndisturbed(t *testing.T, s subject, namespaces ...string) (outcome, []string) {
	t.Helper()
	sabotage.watch(namespaces[0], plan{})
	creations := 0
	first := play(t, s, namespaces[0], nil, func(step string, take func()) {
		if step == change {
			creations = len(sabotage.sent(namespaces[0]))
		}
		take()
	})
	first.creations = creations
	second := play(t, s, namespaces[1], &first, nil)
	assertOutcome(t, first, second)
	sent := sabotage.sent(namespaces[0])
	record := func(text string) bool {
		return strings.HasPrefix(text, "POST namespaces/"+apps.AuditNamespace+"/configmaps")
	}
	if first.audits != s.audits || slices.ContainsFunc(sent, record) != (s.audits > 0) {
		t.Errorf("%d audit records, want %d; requests: %q", first.audits, s.audits, sent)
	}
	return first, sent
}

// playAllUndisturbed plays all subjects without a fault, unless that was done before.
func playAllUndisturbed(t *testing.T) {
	t.Helper()
	t.Run("undisturbed", func(t *testing.T) {
		for name := range subjects {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				undisturbed[name](t)
			})
		}
	})
	// The flag -run may have left out the subtests.
	for name := range subjects {
		undisturbed[name](t)
	}
}

// playAllDisturbed plays all subjects side by side while something is broken for all of them. The
// options are the differences that it may make.
func playAllDisturbed(t *testing.T, options ...cmp.Option) {
	t.Helper()
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count(t, 1)
			want, _ := undisturbed[name](t)
			namespace := shared.Namespace(t)

			came := play(t, s, namespace, &want, nil, options...)

			assertOutcome(t, want, came)
		})
	}
}

// assertOutcome asserts facts that states do not show: an event is sent at most once more, and a
// deletion leaves one audit record.
func assertOutcome(t *testing.T, undisturbed, came outcome) {
	t.Helper()
	for reason, count := range came.events {
		if most := undisturbed.events[reason] + 1; count > most {
			t.Errorf("%d events %s, at most %d are expected; without a fault: %v, with it: %v",
				count, reason, most, undisturbed.events, came.events)
		}
	}
	assertAudits(t, undisturbed, came)
}

// assertAudits asserts that a run has left the audit records of the undisturbed one.
func assertAudits(t *testing.T, undisturbed, came outcome) {
	t.Helper()
	if came.audits != undisturbed.audits {
		t.Errorf("%d audit records, want %d", came.audits, undisturbed.audits)
	}
}
