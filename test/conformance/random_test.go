// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/example/demoapp-controller/pkg/helm"
)

// releases is the number of releases on one engine.
const releases = 3

// TestRandomOperations applies random changes to random releases: of the desired state, of objects,
// by users with Helm who are interrupted. The engine may die. Whenever the changes pause, the
// engine brings all releases to their desired state, and each equals its model.
func TestRandomOperations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine(t)
		defer m.stop()
		rt.Repeat(map[string]func(*rapid.T){
			"want":                m.want,
			"want nothing":        m.wantNothing,
			"delete an object":    m.deleteObject,
			"change an object":    m.changeObject,
			"replace an object":   m.replaceObject,
			"upgrade by hand":     m.upgradeByHand,
			"roll back by hand":   m.rollBackByHand,
			"uninstall by hand":   m.uninstallByHand,
			"restart the engine":  m.restartEngine,
			"kill the engine":     m.killEngine,
			"let the engine work": m.settle,
		})
		m.settle(rt)
	})
}

// machine is the state of a random test.
type machine struct {
	t        *testing.T
	chart    source
	clock    *clocktesting.FakePassiveClock
	saboteur *saboteur
	releases []*modeled
}

// modeled is a release with its desired state.
type modeled struct {
	*engine

	user    *stock
	desired values
	// unmarked says that another client removed the release's marks from a desired object, or replaced
	// them by the marks of another release. The engine then keeps the object when it is not desired
	// any more, and only the baseline shows its owner.
	unmarked bool
	// interrupted says that a process died in an operation, and may have left a hook. An uninstall
	// does not run the hooks of a record that the engine cannot verify, so that the hook stays.
	interrupted bool
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{
		t: t, chart: readChart(t, "faults"), clock: clocktesting.NewFakePassiveClock(time.Now()), saboteur: &saboteur{},
	}
	var siblings []*engine
	for range releases {
		e := &engine{owner: t, t: t, namespace: newNamespace(t), changed: make(chan struct{})}
		siblings = append(siblings, e)
		m.releases = append(m.releases, &modeled{
			engine: e, user: stockOn(t, e), desired: values{"message": "none", "first": true, "second": false},
		})
	}
	for _, e := range siblings {
		e.siblings = siblings
	}
	m.start()
	return m
}

// start starts an engine for all releases.
func (m *machine) start() {
	m.saboteur = &saboteur{}
	first := m.releases[0]
	first.options = []func(*helm.Config){everywhere, m.saboteur.get, func(config *helm.Config) { config.Clock = m.clock }}
	first.start()
}

func (m *machine) stop() { m.releases[0].stop() }

// release draws an existing release.
func (m *machine) release(rt *rapid.T) *modeled {
	r := m.any(rt)
	if r.desired == nil {
		rt.Skip("it is not desired")
	}
	return r
}

func (m *machine) any(rt *rapid.T) *modeled {
	return m.releases[rapid.IntRange(0, releases-1).Draw(rt, "release")]
}

func drawValues(rt *rapid.T) values {
	return values{
		"message": rapid.SampledFrom([]string{"one", "two", "three"}).Draw(rt, "message"),
		"first":   rapid.Bool().Draw(rt, "first"),
		"second":  rapid.Bool().Draw(rt, "second"),
	}
}

// interruption draws the write at which a process dies, or most often no interruption.
func interruption(rt *rapid.T) int {
	return max(0, rapid.IntRange(-20, 14).Draw(rt, "dies at write"))
}

func (m *machine) want(rt *rapid.T) {
	r := m.any(rt)
	if r.unmarked {
		rt.Skip("something could be left behind")
	}
	r.desired = drawValues(rt)
}

func (m *machine) wantNothing(rt *rapid.T) {
	r := m.any(rt)
	if r.unmarked {
		rt.Skip("something would be left behind")
	}
	r.desired = nil
}

func (m *machine) deleteObject(rt *rapid.T) {
	if err := m.release(rt).deleteOne(rt.Context(), drawObject(rt)); err != nil {
		rt.Fatal(err)
	}
}

func (m *machine) changeObject(rt *rapid.T) {
	patches := []string{
		`{"metadata": {"labels": {"example.com/added": "yes"}}}`,
		`{"data": {"message": "b3RoZXI="}}`,
		`{"data": null}`,
		`{"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}`,
		`{"metadata": {"annotations": {"meta.helm.sh/release-name": "other"}}}`,
	}
	const marks = 3
	r, i := m.release(rt), rapid.IntRange(0, len(patches)-1).Draw(rt, "patch")
	if i >= marks && r.baseline.Revision == 0 {
		rt.Skip("its owner could not be determined")
	}
	object := drawObject(rt)
	if _, desired := modelOf(r.desired)[object]; i >= marks && !desired {
		rt.Skip("it would be left behind") // Helm may have made it from other values.
	}
	r.unmarked = r.unmarked || i >= marks
	if err := r.changeOne(rt.Context(), object, patches[i]); err != nil {
		rt.Fatal(err)
	}
}

func (m *machine) replaceObject(rt *rapid.T) {
	if err := m.release(rt).replaceOne(rt.Context(), drawObject(rt)); err != nil {
		rt.Fatal(err)
	}
}

// upgradeByHand and the other operations by hand may fail, as they do for a user who is
// interrupted.
func (m *machine) upgradeByHand(rt *rapid.T) {
	r := m.release(rt)
	r.user.clientSide = rapid.Bool().Draw(rt, "client-side")
	m.byHand(rt, r, func() error { return r.user.deploy(rt.Context(), m.chart, drawValues(rt)) })
}

func (m *machine) rollBackByHand(rt *rapid.T) {
	r := m.release(rt)
	m.byHand(rt, r, func() error { return r.user.rollback(rt.Context(), rapid.IntRange(0, 3).Draw(rt, "revision")) })
}

func (m *machine) uninstallByHand(rt *rapid.T) {
	r := m.release(rt)
	if r.unmarked {
		rt.Skip("something would be left behind")
	}
	m.byHand(rt, r, func() error { return r.user.remove(rapid.Bool().Draw(rt, "keep history")) })
}

func (m *machine) byHand(rt *rapid.T, r *modeled, do func() error) {
	r.user.saboteur.arm(interruption(rt))
	if err := do(); err != nil {
		r.interrupted = true
		rt.Logf("by hand: %v", err)
	}
}

func (m *machine) restartEngine(rt *rapid.T) {
	m.stop()
	if rapid.Bool().Draw(rt, "baselines are lost") {
		for _, r := range m.releases {
			if !r.unmarked {
				r.baseline = helm.Baseline{}
			}
		}
	}
	m.start()
}

// killEngine kills the engine in the middle of its work.
func (m *machine) killEngine(rt *rapid.T) {
	m.saboteur.arm(rapid.IntRange(1, 14).Draw(rt, "dies at write"))
	r := m.any(rt)
	if err := r.work(rt.Context(), m); err != nil {
		r.interrupted = true
		rt.Logf("before the process died: %v", err)
	}
	m.restartEngine(rt)
}

// settle lets the engine work on all releases in parallel, until no action is left.
func (m *machine) settle(rt *rapid.T) {
	var group errgroup.Group
	for _, r := range m.releases {
		group.Go(func() error {
			err := r.follow(func(ctx context.Context) (bool, error) {
				if err := r.work(ctx, m); err != nil {
					return false, err
				}
				err := r.compare(ctx)
				return err == nil, err
			})
			r.unmarked, r.interrupted = false, r.interrupted && r.desired == nil
			if err != nil {
				return fmt.Errorf("release in %s, desired %v, last %s because of %s: %w", r.namespace, r.desired, r.last.Action, r.last.Cause, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		rt.Fatal(err)
	}
}

// work performs the engine's actions.
func (r *modeled) work(ctx context.Context, m *machine) error {
	if r.desired == nil {
		return r.uninstall(ctx)
	}
	desired := r.release()
	desired.Chart, desired.Values = m.chart.engine(m.t), r.desired
	var err error
	for range maxPasses {
		if err = r.pass(ctx, desired); err == nil && r.last.Action == helm.ActionNone {
			return nil
		}
		if r.last.Action == helm.ActionWait {
			if newest := newestRelease(ctx, m.t, r.namespace); newest == nil || !isPending(newest) {
				return err // The operation was in progress and has ended. The watch reports the change.
			}
			m.clock.SetTime(m.clock.Now().Add(r.last.RetryAfter))
		}
	}
	return err
}
