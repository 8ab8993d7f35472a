// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"testing"
)

// unservedCRD: the engine does not retry if the API server does not serve the version of a CRD.
var unservedCRD = deviation{
	why: "the version of a file under crds/ will not be served by trying again; the engine names the chart's mistake",
	expect: func(helm *world) {
		if helm.Error == classKind {
			helm.Error = classRender
		}
	},
}

// deploySource returns the step that deploys a chart that is not in testdata.
func deploySource(name string, chart source) step {
	return step{name: name, do: func(t *testing.T, p player) error {
		t.Helper()
		return p.deploy(t.Context(), chart, nil)
	}}
}

// smallChart returns a chart with the files, the lines in its Chart.yaml and a ConfigMap.
func smallChart(lines string, files source) source {
	chart := source{
		"Chart.yaml":       []byte("apiVersion: v2\nname: small\nversion: 0.1.0\n" + lines),
		"templates/a.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
	}
	for name, data := range files {
		chart[name] = data
	}
	return chart
}

// TestShapes uses features of public charts that are easily handled wrong.
func TestShapes(t *testing.T) {
	t.Parallel()
	secrets := []deviation{stringData("beside-string-data"), stringData("entries")}
	scenarios := []scenario{
		{
			name: "null in place of data",
			steps: []step{
				deploy("install", "nulls", nil).but(secrets...),
				deploy("upgrade", "nulls", values{"message": "two"}),
				rollback(1),
				uninstall,
			},
		},
		{
			name:       "CRDs in templates, one of them never established",
			everywhere: true,
			steps: []step{
				deploy("install", "crdtemplates", nil),
				deploy("upgrade", "crdtemplates", values{"message": "two"}),
				rollback(1),
				uninstall,
			},
		},
		{
			name: "keys that YAML 1.1 reads as booleans",
			steps: []step{
				deploy("install", "booleans", nil),
				deploy("upgrade", "booleans", values{"message": "two"}),
				uninstall,
			},
		},
		{
			name: "kubeVersion",
			steps: []step{
				deploySource("install", smallChart("kubeVersion: \">=9.0.0\"\n", nil)).fails(classRender),
				deploySource("install for this version", smallChart("kubeVersion: \">=1.20.0-0\"\n", nil)),
				deploySource("upgrade", smallChart("kubeVersion: \">=9.0.0\"\n", nil)).fails(classRender),
			},
		},
		{
			name: "crds/ of a version that is not served",
			steps: []step{
				deploySource("install", smallChart("", source{
					"crds/old.yaml": []byte("apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: things.@NAMESPACE@.example.com}\n"),
				})).fails(classRender).but(unservedCRD),
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
