// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithoutUnknownFields(t *testing.T) {
	tests := map[string]struct {
		object, want string
		fields       []string
	}{
		"misspelled": {
			object: container("imagePullPolcy: Always, resources: {limit: {cpu: 1}, limits: {example.com/gpu: 1}}"),
			want:   container("resources: {limits: {example.com/gpu: 1}}"),
			fields: []string{inContainer + "imagePullPolcy", inContainer + "resources.limit"},
		},
		"at the top": {
			object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, label: {a: b}, annotations: {a: b}}, datas: {a: b}, data: {a: b}}",
			want:   "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, annotations: {a: b}}, data: {a: b}}",
			fields: []string{"datas", "metadata.label"},
		},
		"a custom resource": {
			object: "{apiVersion: example.com/v1, kind: Database, metadata: {name: d}, spec: {a: b}}",
			want:   "{apiVersion: example.com/v1, kind: Database, metadata: {name: d}, spec: {a: b}}",
		},
		"values without a schema": {
			object: "{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: r}, revision: 1, data: {spec: {any: {a: b}}}}",
			want:   "{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: r}, revision: 1, data: {spec: {any: {a: b}}}}",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			known, fields := WithoutUnknownFields(parse(t, test.object))

			if diff := cmp.Diff(test.fields, fields); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(parse(t, test.want).Object, known.Object); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}
