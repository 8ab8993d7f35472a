// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type values = map[string]any

// TestLifecycle installs, upgrades and uninstalls charts of all kinds.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	scenarios := []scenario{
		{
			name: "plain",
			steps: []step{
				deploy("install", "plain", values{"message": "one"}),
				deploy("upgrade", "plain", values{"message": "two", "replicas": 1, "labels": values{"tier": "front"}}),
				deploy("upgrade that removes an object", "plain", values{"message": "two", "extra": false}),
				deploy("upgrade that brings it back", "plain", values{"message": "three"}),
				uninstall,
				deploy("install again", "plain", values{"message": "four"}),
			},
		},
		{
			name: "sub-charts and a library chart",
			steps: []step{
				deploy("install", "umbrella", nil),
				deploy("other sub-charts", "umbrella", values{
					"backend": values{"enabled": false}, "tags": values{"fast": true},
					"global": values{"metrics": true, "region": "south"},
				}),
				deploy("back", "umbrella", nil),
				uninstall,
			},
		},
		{
			name: "lists, JSON, comments, CRLF",
			steps: []step{
				deploy("install", "forms", nil),
				deploy("upgrade", "forms", values{"message": "two {}"}),
				uninstall,
			},
		},
		{
			name: "keep",
			steps: []step{
				deploy("install", "keep", nil),
				deploy("upgrade without a kept object", "keep", values{"kept": false}),
				deploy("upgrade with it again", "keep", values{"message": "two"}),
				uninstall,
				deploy("install over what was kept", "keep", values{"message": "three"}),
				deploy("no longer to be kept", "keep", values{"policy": "delete"}),
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
				deploy("upgrade", "places", values{"verbs": []any{"get", "list"}}),
				deploy("upgrade without those elsewhere", "places", values{"elsewhere": false}),
				deploy("upgrade with them", "places", nil),
				uninstall,
			},
		},
		{
			name: "crds",
			steps: []step{
				deploy("install", "crds", nil),
				deploy("upgrade", "crds", values{"size": 2}),
				uninstall,
				deploy("install again", "crds", nil),
			},
		},
		{
			name: "150 objects of 25 kinds",
			steps: []step{
				deploy("install", "many", nil),
				deploy("upgrade", "many", values{"message": "two"}),
				deploy("upgrade to fewer", "many", values{"count": 3}),
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

// makeNamespace creates a namespace with a given name.
func makeNamespace(t *testing.T, name string) {
	t.Helper()
	namespaces := shared.Client.CoreV1().Namespaces()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := namespaces.Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
