// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// uninstaller is an engine with fixed results.
type uninstaller struct {
	Engine

	uninstallErr, remainingErr error
	left, remaining            []helm.Leftover
	// calls are the calls so far. awaited is AwaitRemoval of the last Uninstall.
	calls   []string
	awaited bool
}

// Uninstall implements Engine.
func (u *uninstaller) Uninstall(_ context.Context, release helm.Release, _ helm.Baseline) ([]helm.Leftover, error) {
	u.calls, u.awaited = append(u.calls, "uninstall"), release.AwaitRemoval
	return u.left, u.uninstallErr
}

// Remaining implements Engine.
func (u *uninstaller) Remaining(context.Context, helm.Release, helm.Baseline) ([]helm.Leftover, error) {
	u.calls = append(u.calls, "remaining")
	return u.remaining, u.remainingErr
}

// deletion is a Deletion that keeps the conditions.
type deletion struct {
	conditions []metav1.Condition
	commits    int
}

// Key implements Deletion.
func (*deletion) Key() cache.ObjectName { return key }

// Conditions implements Deletion.
func (d *deletion) Conditions() status.Editor { return status.For(&d.conditions, 1, began) }

// Commit implements Deletion.
func (d *deletion) Commit(context.Context) error { d.commits++; return nil }

func TestUninstall(t *testing.T) {
	engine := &uninstaller{}

	done, _, err := newLifecycle(engine, nil, controller.DriftCount{}).Uninstall(t.Context(), &deletion{}, *desired(t, "a"), releasev1alpha1.ReleaseStatus{}, releasev1alpha1.ReleasePolicy{})

	expect.Equal(t, "error", nil, err)
	expect.Equal(t, "event", event.Normal("Uninstalled", "Delete", "Uninstalled release a"), done)
	expect.Equal(t, "calls", []string{"uninstall"}, engine.calls)
	expect.Equal(t, "AwaitRemoval", false, engine.awaited)
}

// TestUninstallSaysWhatItLeaves: the event and, while other finalizers hold the object, its conditions
// name the remaining objects.
func TestUninstallSaysWhatItLeaves(t *testing.T) {
	engine := &uninstaller{left: []helm.Leftover{{Object: object("ConfigMap", "kept"), Reason: "its resource policy keeps it"}, {Object: object("Secret", "b")}}}
	p := &deletion{}

	done, _, err := newLifecycle(engine, nil, controller.DriftCount{}).Uninstall(t.Context(), p, *desired(t, "a"), releasev1alpha1.ReleaseStatus{}, releasev1alpha1.ReleasePolicy{})
	reportUninstalled(&releasev1alpha1.ReleaseStatus{}, p.Conditions(), done, "example.com/a")

	const note = "Uninstalled release a; left behind: ConfigMap ns/kept (its resource policy keeps it), Secret ns/b"
	expect.Equal(t, "error", nil, err)
	expect.Equal(t, "note", note, done.Note)
	for _, condition := range p.conditions {
		expect.Equal(t, condition.Type, note+"; the deletion waits for finalizers of others: example.com/a", condition.Message)
	}
}

func TestUninstallAndAwait(t *testing.T) {
	failure := errors.New("broken")
	left := []helm.Leftover{{Object: object("ConfigMap", "a")}}
	tests := map[string]struct {
		engine    uninstaller
		calls     []string
		remaining []helm.Leftover
		err       error
	}{
		"objects remain":                 {uninstaller{remaining: left}, []string{"uninstall", "remaining"}, left, nil},
		"all objects are gone":           {uninstaller{}, []string{"uninstall", "remaining"}, nil, nil},
		"the uninstall fails":            {uninstaller{uninstallErr: failure}, []string{"uninstall"}, nil, failure},
		"the objects cannot be observed": {uninstaller{remainingErr: failure}, []string{"uninstall", "remaining"}, nil, failure},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			lifecycle := newLifecycle(&test.engine, nil, controller.DriftCount{})

			_, remaining, err := lifecycle.UninstallAndAwait(
				t.Context(), &deletion{}, *desired(t, "a"), releasev1alpha1.ReleaseStatus{}, releasev1alpha1.ReleasePolicy{})

			if !errors.Is(err, test.err) {
				t.Errorf("error is %v, want %v", err, test.err)
			}
			expect.Equal(t, "remaining objects", test.remaining, remaining)
			expect.Equal(t, "calls", test.calls, test.engine.calls)
			expect.Equal(t, "AwaitRemoval", true, test.engine.awaited)
		})
	}
}
