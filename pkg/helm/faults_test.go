// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/test/fakeapi"
)

// faultCase is an operation that is to come to the same end whatever request of
// it goes wrong.
type faultCase struct {
	// prepare brings about the state that the operation starts from.
	prepare func(t *testing.T, f *fixture)
	// desired is the release in the end; with uninstall, there is to be none.
	desired   func(t *testing.T) Release
	uninstall bool
	// rollback gives up the desired inputs after the first failure.
	rollback bool
	// brief cases repeat the requests of other cases, so redundant faults are skipped.
	brief bool
}

func faultCases() map[string]faultCase {
	three := func(t *testing.T) Release {
		t.Helper()
		return made(t, map[string]string{
			"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1"), "templates/c.yaml": configMap("c", "1"),
		})
	}
	changed := func(t *testing.T) Release {
		t.Helper()
		return made(t, map[string]string{
			"templates/a.yaml": configMap("a", "2"), "templates/b.yaml": configMap("b", "1"), "templates/d.yaml": configMap("d", "1"),
		})
	}
	hooked := func(t *testing.T) Release {
		t.Helper()
		return made(t, map[string]string{
			"templates/a.yaml": configMap("a", "1"), "templates/pre.yaml": hook("pre", "pre-install,pre-upgrade,pre-rollback", 0),
			"templates/post.yaml": hook("post", "post-install,post-delete", 0, "hook-succeeded", "before-hook-creation"),
		})
	}
	refused := func(t *testing.T) Release {
		t.Helper()
		return made(t, map[string]string{
			"templates/a.yaml": configMap("a", "9"), "templates/d.yaml": configMap("d", "9"), "templates/e.yaml": configMap("e", "bad"),
		})
	}
	nothing := func(*testing.T, *fixture) {}
	install := func(release func(t *testing.T) Release) func(t *testing.T, f *fixture) {
		return func(t *testing.T, f *fixture) {
			t.Helper()
			f.must(release(t), ActionInstall, CauseNotInstalled)
		}
	}
	return map[string]faultCase{
		"install":            {prepare: nothing, desired: three},
		"install with hooks": {prepare: nothing, desired: hooked},
		"upgrade":            {prepare: install(three), desired: changed},
		"upgrade with hooks": {prepare: install(three), desired: hooked, brief: true},
		"uninstall":          {prepare: install(three), desired: three, uninstall: true},
		"uninstall, hooks":   {prepare: install(hooked), desired: hooked, uninstall: true},
		"reapply": {desired: three, prepare: func(t *testing.T, f *fixture) {
			t.Helper()
			install(three)(t, f)
			f.baseline = Baseline{}
		}},
		"repair": {desired: three, prepare: func(t *testing.T, f *fixture) {
			t.Helper()
			install(three)(t, f)
			f.Remove("ConfigMap", "default/a")
			f.Edit("ConfigMap", "default/b", "kubectl", func(object *unstructured.Unstructured) {
				object.Object["data"] = map[string]any{"key": "theirs"}
			})
			f.Edit("ConfigMap", "default/c", "kubectl", func(object *unstructured.Unstructured) { object.SetLabels(nil) })
		}},
		"upgrade of a drifted release": {brief: true, desired: changed, prepare: func(t *testing.T, f *fixture) {
			t.Helper()
			install(three)(t, f)
			f.Remove("ConfigMap", "default/c")
			f.Edit("ConfigMap", "default/b", "kubectl", func(object *unstructured.Unstructured) {
				object.Object["data"] = map[string]any{"key": "theirs"}
			})
		}},
		"after a refused upgrade": {brief: true, desired: changed, prepare: func(t *testing.T, f *fixture) {
			t.Helper()
			f.With(func() { f.Refuse = refuseBad })
			install(three)(t, f)
			_, err := f.reconcile(made(t, map[string]string{"templates/a.yaml": configMap("a", "9"), "templates/e.yaml": configMap("e", "bad")}))
			_ = wantError[*RefusedError](t, err)
		}},
		"uninstall after a refused upgrade": {desired: three, uninstall: true, brief: true, prepare: func(t *testing.T, f *fixture) {
			t.Helper()
			f.With(func() { f.Refuse = refuseBad })
			install(three)(t, f)
			_, err := f.reconcile(made(t, map[string]string{"templates/a.yaml": configMap("a", "9"), "templates/e.yaml": configMap("e", "bad")}))
			_ = wantError[*RefusedError](t, err)
		}},
		"rollback": {rollback: true, desired: refused, prepare: func(t *testing.T, f *fixture) {
			t.Helper()
			f.With(func() { f.Refuse = refuseBad })
			install(three)(t, f)
			_, err := f.reconcile(refused(t))
			_ = wantError[*RefusedError](t, err)
		}},
		"rollback with hooks": {rollback: true, brief: true, desired: refused, prepare: func(t *testing.T, f *fixture) {
			t.Helper()
			f.With(func() { f.Refuse = refuseBad })
			install(hooked)(t, f)
			_, err := f.reconcile(refused(t))
			_ = wantError[*RefusedError](t, err)
		}},
		"rollback of what is deployed": {rollback: true, brief: true, desired: changed, prepare: func(t *testing.T, f *fixture) {
			t.Helper()
			install(three)(t, f)
			f.must(changed(t), ActionUpgrade, CauseInputsChanged)
		}},
		"after a refused install": {brief: true, desired: changed, prepare: func(t *testing.T, f *fixture) {
			t.Helper()
			f.With(func() { f.Refuse = refuseBad })
			_, err := f.reconcile(made(t, map[string]string{"templates/c.yaml": configMap("c", "9"), "templates/e.yaml": configMap("e", "bad")}))
			_ = wantError[*RefusedError](t, err)
		}},
	}
}

// act makes the step of the case, once.
func (c faultCase) act(f *fixture, desired Release) (done bool, err error) {
	if c.uninstall {
		_, err := f.engine.Uninstall(f.t.Context(), desired, f.baseline)
		return err == nil, err
	}
	if c.rollback {
		if done, err := rollBack(f, desired); done || err != nil {
			return false, err
		}
	}
	decision, err := f.reconcile(desired)
	return err == nil && decision.Action == ActionNone, err
}

// rollBack plays a controller that gives up the desired inputs: once the newest revision was an
// attempt at them, it rolls back.
func rollBack(f *fixture, desired Release) (done bool, err error) {
	f.t.Helper()
	observed, err := f.engine.Observe(f.t.Context(), desired.Key(), f.baseline)
	if err != nil {
		return false, err
	}
	inputs, err := desired.InputDigest()
	if err != nil || observed.Record == nil || observed.Record.Inputs != inputs || observed.LastGood == nil {
		return false, err
	}
	err = f.rollback(desired, observed.LastGood.Revision)
	return err == nil, err
}

// converge acts until nothing is left to do, as a controller does with its retries, and returns the
// end state.
func (c faultCase) converge(t *testing.T, f *fixture, desired Release) endState {
	t.Helper()
	var errs []error
	for range 8 {
		<-time.After(10 * time.Second)
		done, err := c.act(f, desired)
		if err != nil {
			errs = append(errs, err)
		}
		if IsTerminal(err) {
			t.Fatalf("a passing fault counts as terminal: %v", err)
		}
		if done {
			return endOf(f)
		}
		var busy *BusyError
		if errors.As(err, &busy) {
			<-time.After(busy.RetryAfter)
		}
	}
	t.Fatalf("does not converge:\n%v\n%s, %s", errors.Join(errs...), f.HelmRecords(), f.Names())
	return endState{}
}

// endState is all that an operation leaves behind.
type endState struct {
	Objects map[string]map[string]any
	Records []string
}

func endOf(f *fixture) endState {
	end := endState{Objects: map[string]map[string]any{}, Records: f.HelmRecords()}
	for i := range end.Records {
		// A failed revision becomes a superseded one only as far as Helm comes to it.
		end.Records[i] = strings.ReplaceAll(end.Records[i], "failed", "superseded")
	}
	for _, name := range f.Names() {
		kind, key, _ := strings.Cut(name, " ")
		end.Objects[name] = meant(f.Object(kind, key))
	}
	return end
}

// run plays the case with one fault, and reports whether the fault occurred.
func (c faultCase) run(t *testing.T, n int, inject func(*fixture, int) (seen func() int), after func(*fixture)) (end endState, fired bool) {
	t.Helper()
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.React = jobsEnd })
		c.prepare(t, f)
		synctest.Wait()
		desired := c.desired(t)
		seen := inject(f, n)
		_, _ = c.act(f, desired) // Whether it fails depends on the request.
		fired = seen() >= n
		f.With(func() { f.Fault = nil })
		after(f)
		end = c.converge(t, f, desired)
	})
	return end, fired
}

// each plays the case once for every request of it, and compares the ends.
func (c faultCase) each(t *testing.T, want endState, inject func(*fixture, int) (seen func() int), after func(*fixture)) {
	t.Helper()
	more := true
	for n := 1; more; n++ {
		t.Run(fmt.Sprintf("request %d", n), func(t *testing.T) {
			more = false // In case that it ends early.
			end, fired := c.run(t, n, inject, after)
			more = fired
			if diff := cmp.Diff(want, end); diff != "" {
				t.Errorf("end (-without faults +got):\n%s", diff)
			}
		})
		if !more && n < 3 {
			t.Errorf("the operation sent %d requests: nothing was tested", n-1)
		}
	}
}

// TestFaults has every single request of every operation go wrong in every way.
// Trying again then comes to the same end.
func TestFaults(t *testing.T) {
	t.Parallel()
	faults := map[string]fakeapi.Fault{
		"500 without effect": fakeapi.FailBefore,
		"500 after effect":   fakeapi.FailAfter,
		"no answer":          fakeapi.LoseAnswer,
		"409":                fakeapi.AnswerConflict,
		"429":                fakeapi.AnswerThrottled,
		"end of all watches": fakeapi.EndWatches,
	}
	for caseName, tc := range faultCases() {
		t.Run(caseName, func(t *testing.T) {
			t.Parallel()
			never := func(*fixture, int) func() int { return func() int { return 0 } }
			want, _ := tc.run(t, 1, never, func(*fixture) {})
			for faultName, fault := range faults {
				if tc.brief && fault != fakeapi.FailBefore && fault != fakeapi.LoseAnswer {
					continue
				}
				t.Run(faultName, func(t *testing.T) {
					inject := func(f *fixture, n int) func() int { return f.FailNth(n, fault) }
					tc.each(t, want, inject, func(*fixture) {})
				})
			}
		})
	}
}

// TestCrashes ends the process at every single request of every operation; the
// next one takes up where it left off, with the baseline from before.
func TestCrashes(t *testing.T) {
	t.Parallel()
	for caseName, tc := range faultCases() {
		t.Run(caseName, func(t *testing.T) {
			t.Parallel()
			never := func(*fixture, int) func() int { return func() int { return 0 } }
			want, _ := tc.run(t, 1, never, func(*fixture) {})
			for _, last := range []fakeapi.Fault{fakeapi.FailBefore, fakeapi.LoseAnswer} {
				t.Run(map[fakeapi.Fault]string{fakeapi.FailBefore: "before", fakeapi.LoseAnswer: "after"}[last], func(t *testing.T) {
					inject := func(f *fixture, n int) func() int { return f.FailFrom(n, last) }
					tc.each(t, want, inject, func(f *fixture) { f.restart() })
				})
			}
		})
	}
}

// TestBrokenWatches: watches that break are taken up again, and nothing that
// happened meanwhile is lost.
func TestBrokenWatches(t *testing.T) {
	for _, expired := range []bool{false, true} {
		t.Run(fmt.Sprintf("expired %t", expired), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := demo(t, nil)
				f.must(desired, ActionInstall, CauseNotInstalled)
				synctest.Wait()
				f.heard()
				f.HoldWatches(true)
				f.Remove("Service", "default/web")
				f.Edit("ConfigMap", "default/web", "kubectl", func(object *unstructured.Unstructured) { object.Object["data"] = nil })
				f.BreakWatches(expired)
				f.HoldWatches(false)
				<-time.After(time.Minute)
				if diff := cmp.Diff([]string{"object default/web"}, f.heard()); diff != "" {
					t.Errorf("heard (-want +got):\n%s", diff)
				}
				f.must(desired, ActionRepair, CauseDrift)
				f.must(desired, ActionNone, CauseNone)
				f.must(demo(t, map[string]any{"message": "Hi"}), ActionUpgrade, CauseInputsChanged)

				f.HoldWatches(true)
				f.uninstall(desired)
				f.BreakWatches(expired)
				f.HoldWatches(false)
				<-time.After(time.Minute)
				if record := f.engine.records.Latest(cache.ObjectName{Namespace: "default", Name: "web"}); record != nil {
					t.Errorf("a record is still known: %+v", record)
				}
				f.must(desired, ActionInstall, CauseNotInstalled)
			})
		})
	}
}
