// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"testing"
)

// TestTakeover takes releases over: from Helm 3, from Helm 4, and after changes by users.
func TestTakeover(t *testing.T) {
	t.Parallel()
	scenarios := []scenario{
		{
			name: "from Helm 3",
			steps: []step{
				byHelm("install as Helm 3", true, "plain", values{"message": "one", "labels": values{"tier": "front"}}),
				deploy("upgrade", "plain", values{"message": "two", "extra": false}),
				deploy("upgrade once more", "plain", values{"message": "three"}),
				uninstall,
			},
		},
		{
			name: "from Helm 3, unchanged",
			steps: []step{
				byHelm("install as Helm 3", true, "changing", nil),
				deploy("upgrade", "changing", nil),
				deploy("upgrade once more", "changing", values{"name": "second"}),
				uninstall,
			},
		},
		{
			// The engine does not run hooks of revisions that it did not record.
			name: "from Helm 3, uninstalled at once",
			steps: []step{
				byHelm("install as Helm 3", true, "plain", nil),
				uninstall,
			},
		},
		{
			name: "from Helm 4",
			steps: []step{
				byHelm("install", false, "plain", values{"message": "one"}),
				byHelm("upgrade", false, "plain", values{"message": "two", "extra": false}),
				deploy("upgrade", "plain", values{"message": "three"}),
				uninstall,
			},
		},
		{
			name: "rolled back",
			steps: []step{
				deploy("install", "plain", values{"message": "one"}),
				deploy("upgrade", "plain", values{"message": "two", "replicas": 1, "extra": false}),
				rollbackByHelm(1),
				deploy("to what is desired", "plain", values{"message": "two", "replicas": 1, "extra": false}),
				uninstall,
			},
		},
		{
			name: "upgraded as Helm 3",
			steps: []step{
				deploy("install", "plain", values{"message": "one"}),
				byHelm("upgrade as Helm 3", true, "plain", values{"message": "two", "replicas": 1, "extra": false}),
				deploy("to what is desired", "plain", values{"message": "one"}),
				uninstall,
			},
		},
		{
			name: "uninstalled with its history kept",
			steps: []step{
				deploy("install", "changing", nil),
				deploy("upgrade", "changing", values{"name": "second"}),
				removeKeepingHistory,
				// Helm's upgrade --install recreates the object in the same way.
				reinstall("install again", "changing", values{"name": "second"}),
				uninstall,
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

// byHelm is the step in which a user deploys the release with Helm.
func byHelm(name string, clientSide bool, chart string, values values) step {
	return step{name: name, do: func(t *testing.T, p player) error {
		t.Helper()
		user := stockOn(t, p)
		user.clientSide = clientSide
		err := user.deploy(t.Context(), readChart(t, chart), values)
		awaitNewest(t, p)
		return err
	}}
}

// removeKeepingHistory is the step in which a user uninstalls the release with its history kept.
var removeKeepingHistory = step{name: "uninstall, keep history", do: func(t *testing.T, p player) error {
	t.Helper()
	err := stockOn(t, p).remove(true)
	awaitNewest(t, p)
	return err
}}

// reinstall is the step that installs a release of which only the history exists.
func reinstall(name, chart string, desired values) step {
	return step{name: name, do: func(t *testing.T, p player) error {
		t.Helper()
		if s, ok := p.(*stock); ok {
			return s.install(t.Context(), readChart(t, chart), desired, true)
		}
		return p.deploy(t.Context(), readChart(t, chart), desired)
	}}
}
