// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"testing"
)

// TestHooks runs hooks of all events, weights and deletion policies, and lets them fail.
func TestHooks(t *testing.T) {
	t.Parallel()
	scenarios := []scenario{
		{
			name: "all events",
			steps: []step{
				deploy("install", "hooks", nil),
				deploy("upgrade", "hooks", values{"message": "two"}),
				rollback(1),
				deploy("upgrade", "hooks", values{"message": "three"}),
				uninstall,
			},
		},
		{
			name: "tests",
			steps: []step{
				deploy("install", "tests", nil),
				runTests("tests", nil),
				deploy("upgrade", "tests", values{"fails": true}),
				runTests("tests", values{"fails": true}).fails(classHook),
				uninstall,
			},
		},
		failingInstall("Job before the install", values{"failing": "pre-install", "policies": false}, classHook),
		failingInstall("Job after the install", values{"failing": "post-install"}, classHook),
		failingInstall("Pod after the install", values{"failing": "pod", "policies": false}, classHook),
		failingInstall("hook before the install that is refused", values{"refused": "pre-install", "policies": false}, classRefused),
		failingInstall("hook after the install that is refused", values{"refused": "post-install", "policies": false}, classRefused),
		failingUpgrade("Job before the upgrade", values{"failing": "pre-upgrade"}, classHook),
		failingUpgrade("Job after the upgrade", values{"failing": "post-upgrade", "policies": false}, classHook),
		failingUpgrade("hook before the upgrade that is refused", values{"refused": "pre-upgrade", "policies": false}, classRefused),
		failingUpgrade("hook after the upgrade that is refused", values{"refused": "post-upgrade", "policies": false}, classRefused),
		{
			name: "Job before the uninstall",
			steps: []step{
				deploy("install", "hooks", values{"failing": "pre-delete"}),
				uninstall.fails(classHook).but(failureText),
				uninstall.fails(classHook),
			},
		},
		{
			name: "Job after the uninstall",
			steps: []step{
				deploy("install", "hooks", values{"failing": "post-delete", "policies": false}),
				uninstall.fails(classHook),
				deploy("install again", "hooks", nil),
			},
		},
		{
			name: "hook before the uninstall that is refused",
			steps: []step{
				deploy("install", "hooks", values{"refused": "pre-delete", "policies": false}),
				uninstall.fails(classRefused).but(failureText),
				uninstall.fails(classRefused),
			},
		},
		{
			name: "hook after the uninstall that is refused",
			steps: []step{
				deploy("install", "hooks", values{"refused": "post-delete", "policies": false}),
				uninstall.fails(classRefused).but(unfinished),
			},
		},
	}
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			scenario.play(t)
		})
	}
}

// goodLike returns values with the same hooks that do not fail.
func goodLike(failing values) values {
	return values{"message": "good", "policies": failing["policies"] != false}
}

func failingInstall(name string, failing values, class string) scenario {
	return scenario{name: name, steps: []step{
		deploy("failing install", "hooks", failing).fails(class).but(failureText),
		deploy("good values", "hooks", goodLike(failing)),
		uninstall,
	}}
}

func failingUpgrade(name string, failing values, class string) scenario {
	return scenario{name: name, steps: []step{
		deploy("install", "hooks", goodLike(failing)),
		deploy("failing upgrade", "hooks", failing).fails(class).but(failureText),
		deploy("good values", "hooks", goodLike(failing)),
		uninstall,
	}}
}

// rollbackByHelm is the step in which a user rolls the release back with Helm.
func rollbackByHelm(revision int) step {
	return step{name: "roll back", do: func(t *testing.T, p player) error {
		t.Helper()
		err := stockOn(t, p).rollback(t.Context(), revision)
		awaitNewest(t, p)
		return err
	}}
}

// runTests is the step in which a user runs the chart's tests. The engine has no action afterwards.
func runTests(chart string, desired values) step {
	return step{name: "test", do: func(t *testing.T, p player) error {
		t.Helper()
		err := stockOn(t, p).test()
		awaitNewest(t, p)
		if e, ok := p.(*engine); ok {
			e.assertAsDesired(e.desired(readChart(t, chart), desired))
		}
		return err
	}}
}

// awaitNewest waits until an engine has observed all records.
func awaitNewest(t *testing.T, p player) {
	t.Helper()
	e, ok := p.(*engine)
	if !ok {
		return
	}
	newest := newestRelease(t.Context(), t, e.namespace)
	e.awaitRecord(newest.Version, newest.Info.Status.String())
}
