// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sampledChild is a child as the operator applied it.
type sampledChild struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]any `json:"data"`
}

// driftOf returns a field of a child, which the operator restores when others change it: a text of the first ConfigMap, or
// else a label of the first child. It also returns the kind of the child.
func driftOf(s sample) (field driftedField, kind string, err error) {
	for _, w := range s.writes {
		var child sampledChild
		owner := metav1.ObjectMeta{UID: s.uid}
		if w.isStatus() || json.Unmarshal(w.body, &child) != nil || !metav1.IsControlledBy(&child.ObjectMeta, &owner) {
			continue
		}
		changed := child.driftPath()
		if changed == nil || kind != "" && child.Kind != configMapKind {
			continue
		}
		group, err := schema.ParseGroupVersion(child.APIVersion)
		if err != nil {
			return driftedField{}, "", err
		}
		kind = child.Kind
		field = driftedField{
			resource: group.WithResource(filepath.Base(filepath.Dir(w.path))), path: changed,
			name: func(owner string) string { return strings.ReplaceAll(child.Name, sampleName, owner) },
		}
		if kind == configMapKind {
			return field, kind, nil
		}
	}
	if kind == "" {
		return field, kind, errors.New("no child has a field to change")
	}
	return field, kind, nil
}

const configMapKind = "ConfigMap"

// driftPath returns the path of a text in a child; nil for a child without one. Keys with the name of the sample differ
// between custom resources. Labels with a prefix stay: the operator watches its children by such a label, and a child
// without the label seems to be gone.
func (c sampledChild) driftPath() []string {
	for _, key := range slices.Sorted(maps.Keys(c.Data)) {
		if c.Kind == configMapKind && !strings.Contains(key, sampleName) {
			return []string{"data", key}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		if !strings.Contains(key, "/") {
			return []string{"metadata", "labels", key}
		}
	}
	return nil
}
