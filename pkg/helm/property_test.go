// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v4/pkg/release/common"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// move is one thing that happens to one of several releases.
type move struct {
	what    string
	release int
	// n is a parameter of the move.
	n int
}

var moves = []string{
	"want", "want", "want", "unwant", "reconcile", "reconcile", "reconcile", "reconcile", "change", "delete", "add",
	"revise", "roll back", "fail", "lose", "hold", "release", "settle", "restart", "forget",
}

// TestRandomMoves plays random moves on several releases. After any moves, reconciling reaches the
// state of the model: the desired objects with the desired content, and no further action.
func TestRandomMoves(t *testing.T) {
	chart := testChart(t, map[string]string{
		"values.yaml":      "n: 0\n",
		"templates/a.yaml": configMap("{{ .Release.Name }}-a", "{{ .Values.n }}"),
		"templates/b.yaml": configMap("{{ .Release.Name }}-b", "fixed"),
		"templates/c.yaml": "{{ if mod .Values.n 2 }}" + configMap("{{ .Release.Name }}-c", "{{ .Values.n }}") + "{{ end }}",
	})
	rapid.Check(t, func(rt *rapid.T) {
		played := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) move {
			return move{
				what:    rapid.SampledFrom(moves).Draw(rt, "what"),
				release: rapid.IntRange(0, 1).Draw(rt, "release"),
				n:       rapid.IntRange(1, 5).Draw(rt, "n"),
			}
		}), 5, 25).Draw(rt, "moves")
		var problems []string
		bubble(t, func(t *testing.T, f *fixture) {
			game := &game{f: f, chart: chart, baselines: map[int]Baseline{}, desired: map[int]int{}, givenUp: map[int]int{}}
			for _, move := range played {
				game.play(move)
			}
			problems = game.end(t)
		})
		if len(problems) > 0 {
			rt.Fatal(strings.Join(problems, "\n"))
		}
	})
}

// game is the model: which releases are desired, and with which value.
type game struct {
	f         *fixture
	chart     *chart.Chart
	baselines map[int]Baseline
	desired   map[int]int
	// givenUp are the inputs of the last rollback, and fresh counts the unique values.
	givenUp map[int]int
	fresh   int
}

func (g *game) of(i int) Release {
	return Release{
		Namespace: "default", Name: fmt.Sprintf("r%d", i), Chart: g.chart, Values: map[string]any{"n": g.desired[i]},
		Adopt: true, // Other clients install and upgrade the same releases.
	}
}

// edit changes one of a release's objects, if it is there.
func (g *game) edit(move move, change func(*unstructured.Unstructured)) {
	name := fmt.Sprintf("default/r%d-%c", move.release, "abc"[move.n%3])
	if g.f.Object("ConfigMap", name) != nil {
		g.f.Edit("ConfigMap", name, "kubectl", change)
	}
}

func (g *game) play(move move) {
	setKey := func(key string) func(*unstructured.Unstructured) {
		return func(object *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(object.Object, fmt.Sprint("theirs-", move.n), "data", key)
		}
	}
	switch move.what {
	case "want":
		g.desired[move.release] = move.n
		if g.givenUp[move.release] == move.n {
			g.desired[move.release] = g.unseen()
		}
	case "unwant":
		delete(g.desired, move.release)
	case "reconcile":
		_, _ = g.reconcile(move.release)
	case "change":
		g.edit(move, setKey("key"))
	case "add":
		g.edit(move, setKey("more"))
	case "delete":
		name := fmt.Sprintf("default/r%d-%c", move.release, "abc"[move.n%3])
		if g.f.Object("ConfigMap", name) != nil {
			g.f.Remove("ConfigMap", name)
		}
	case "revise":
		// A fault would hit the next client, and held events would be missed.
		g.f.With(func() { g.f.Fault = nil })
		g.f.HoldWatches(false)
		synctest.Wait()
		newest := g.f.engine.records.Latest(g.of(move.release).Key())
		if newest != nil && common.Status(newest.Status) == common.StatusDeployed {
			g.f.foreign(g.of(move.release), newest.Revision+1, common.StatusDeployed, nil)
		}
	case "roll back":
		g.rollBack(move)
	case "fail":
		g.f.FailNth(move.n, fakeapi.FailBefore)
	case "lose":
		g.f.FailNth(move.n, fakeapi.LoseAnswer)
	case "hold":
		g.f.HoldWatches(true)
	case "release":
		g.f.HoldWatches(false)
	case "settle":
		g.f.HoldWatches(false)
		synctest.Wait()
	case "restart":
		g.f.HoldWatches(false)
		g.f.restart()
	case "forget":
		delete(g.baselines, move.release)
	}
}

// rollBack gives up the desired inputs, with or without success, for new inputs: inputs that were
// given up are not tried again.
func (g *game) rollBack(move move) {
	f, release := g.f, g.of(move.release)
	if _, ok := g.desired[move.release]; !ok {
		return
	}
	baseline := g.baselines[move.release]
	observed, err := f.engine.Observe(f.t.Context(), release.Key(), baseline)
	if err != nil || observed.LastGood == nil {
		return
	}
	if deployed, err := f.engine.Execute(f.t.Context(), release, Decision{Action: ActionRollback, To: observed.LastGood.Revision}, baseline); err == nil {
		g.baselines[move.release] = deployed.Baseline()
	}
	g.givenUp[move.release], g.desired[move.release] = g.desired[move.release], g.unseen()
}

// unseen is a value that no release was ever desired with.
func (g *game) unseen() int {
	g.fresh++
	return 100 + g.fresh
}

// reconcile makes one step of a controller for the release.
func (g *game) reconcile(i int) (done bool, err error) {
	f, release := g.f, g.of(i)
	if _, ok := g.desired[i]; !ok {
		if _, err := f.engine.Uninstall(f.t.Context(), release, g.baselines[i]); err != nil {
			return false, err
		}
		delete(g.baselines, i)
		return true, nil
	}
	f.baseline = g.baselines[i]
	decision, err := f.reconcile(release)
	g.baselines[i] = f.baseline
	return err == nil && decision.Action == ActionNone, err
}

// end reconciles until nothing is due, and compares with the model.
func (g *game) end(t *testing.T) []string {
	t.Helper()
	f := g.f
	f.With(func() { f.Fault = nil })
	f.HoldWatches(false)
	var problems []string
	for i := range 2 {
		problems = append(problems, g.finish(i)...)
	}
	synctest.Wait()
	f.TakeRequests()
	want := []string{}
	for i := range 2 {
		if done, err := g.reconcile(i); !done || err != nil {
			problems = append(problems, fmt.Sprintf("r%d: something is left to do: %v", i, err))
		}
		n, ok := g.desired[i]
		if !ok {
			continue
		}
		objects := map[string]string{"a": fmt.Sprint(n), "b": "fixed"}
		if n%2 == 1 {
			objects["c"] = fmt.Sprint(n)
		}
		for suffix, value := range objects {
			name := fmt.Sprintf("default/r%d-%s", i, suffix)
			want = append(want, "ConfigMap "+name)
			object := f.Object("ConfigMap", name)
			if object == nil {
				continue // The list of names says so.
			}
			if got, _, _ := unstructured.NestedString(object.Object, "data", "key"); got != value {
				problems = append(problems, fmt.Sprintf("%s has the value %q, want %q", name, got, value))
			}
		}
	}
	if requests := f.TakeRequests(); len(requests) > 0 {
		problems = append(problems, fmt.Sprintf("requests when nothing is due: %s", requests))
	}
	slices.Sort(want)
	if got := f.Names(); !slices.Equal(got, want) {
		problems = append(problems, fmt.Sprintf("objects are %s, want %s; records are %s", got, want, f.HelmRecords()))
	}
	return problems
}

func (g *game) finish(i int) []string {
	var errs []error
	for range 6 {
		<-time.After(time.Minute)
		done, err := g.reconcile(i)
		if done {
			return nil
		}
		errs = append(errs, err)
		var busy *BusyError
		if errors.As(err, &busy) {
			<-time.After(busy.RetryAfter)
		}
	}
	return []string{fmt.Sprintf("r%d does not converge: %v", i, errors.Join(errs...))}
}
