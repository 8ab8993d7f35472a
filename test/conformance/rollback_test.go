// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"testing"
)

// TestRollback rolls back to earlier revisions.
func TestRollback(t *testing.T) {
	t.Parallel()
	scenarios := []scenario{
		{
			name: "plain",
			steps: []step{
				deploy("install", "plain", values{"message": "one"}),
				deploy("upgrade", "plain", values{"message": "two", "replicas": 1, "extra": false}),
				rollback(1),
				deploy("other values", "plain", values{"message": "three", "labels": values{"tier": "front"}}),
				rollback(3),
				uninstall,
			},
		},
		{
			name: "renamed, removed, moved to another kind, of another apiVersion",
			steps: []step{
				deploy("install", "changing", nil),
				deploy("rename", "changing", values{"name": "second", "version": "v2"}),
				rollback(1),
				deploy("move", "changing", values{"kind": "Secret"}).but(stringData("moved")),
				rollback(3),
				deploy("remove", "changing", values{"name": ""}),
				rollback(5),
				uninstall,
			},
		},
		{
			name: "after an upgrade that failed",
			steps: []step{
				deploy("install", "immutable", nil),
				deploy("upgrade", "immutable", values{"frozen": "two", "message": "two", "added": true}).fails(classRefused).but(failureText),
				rollback(1),
				deploy("other values", "immutable", values{"message": "three"}),
				uninstall,
			},
		},
		{
			name:       "cluster-scoped objects, and objects elsewhere",
			everywhere: true,
			prepare: func(t *testing.T, namespace string) {
				t.Helper()
				makeNamespace(t, namespace+otherNamespace)
			},
			steps: []step{
				deploy("install", "places", nil),
				deploy("upgrade", "places", values{"verbs": []any{"get", "list"}, "elsewhere": false}),
				rollback(1),
				uninstall,
			},
		},
		{
			name: "keep, JSON, lists",
			steps: []step{
				deploy("install", "keep", nil),
				deploy("upgrade without a kept object", "keep", values{"kept": false}),
				rollback(1),
				uninstall,
			},
		},
		{
			name: "crds",
			steps: []step{
				deploy("install", "crds", nil),
				deploy("upgrade", "crds", values{"size": 2}),
				rollback(1),
				uninstall,
			},
		},
		{
			name: "random text",
			steps: []step{
				deploy("install", "dynamic", nil).but(randomText),
				deploy("upgrade", "dynamic", values{"message": "two"}),
				rollback(1),
				uninstall,
			},
		},
		{
			name: "from a revision of Helm 4",
			steps: []step{
				deploy("install", "plain", values{"message": "one"}),
				byHelm("upgrade", false, "plain", values{"message": "two", "extra": false}),
				rollback(1),
				uninstall,
			},
		},
		failingRollback("Job before the rollback", values{"failing": "pre-rollback", "policies": false}, classHook),
		failingRollback("Job after the rollback", values{"failing": "post-rollback"}, classHook),
		failingRollback("hook before the rollback that is refused", values{"refused": "pre-rollback", "policies": false}, classRefused),
		failingRollback("hook after the rollback that is refused", values{"refused": "post-rollback", "policies": false}, classRefused),
	}
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			scenario.play(t)
		})
	}
}

// failingRollback rolls back to a revision whose hook fails. The hooks are the hooks of the target
// revision.
func failingRollback(name string, failing values, class string) scenario {
	return scenario{name: name, steps: []step{
		deploy("install", "hooks", failing),
		deploy("upgrade", "hooks", goodLike(failing)),
		rollback(1).fails(class).but(givenUp, failureText),
		uninstall,
	}}
}
